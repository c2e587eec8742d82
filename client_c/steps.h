/* steps.h - waiting for steps. */
#ifndef CONTACTD_STEPS_H
#define CONTACTD_STEPS_H

#include "client_c/client.h"

/* Waits until none of the scene's steps is without an answer; scene 0: fewer than `below` of all. */
contactd_code ctc_flush(contactd_client *client, uint32_t scene, size_t below);

#endif
