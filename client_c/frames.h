/* frames.h - contact frames that are continuous in time. */
#ifndef CONTACTD_FRAMES_H
#define CONTACTD_FRAMES_H

#include "client_c/client.h"

/* Tangents follow those before, if the scene asks for that. False: out of memory. */
bool ctc_continue_frames(ctc_scene *scene, contactd_contact *contacts, uint32_t n);

#endif
