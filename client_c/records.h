/* records.h - the meshes, scenes and bodies of a client by their handles, and how errors name them. */
#ifndef CONTACTD_RECORDS_H
#define CONTACTD_RECORDS_H

#include "client_c/client.h"

enum { CTC_OBJECT = 96 };
ctc_mesh *ctc_find_mesh(contactd_client *client, contactd_mesh mesh); /* NULL: the error says why */
ctc_scene *ctc_find_scene(contactd_client *client, contactd_scene scene);
ctc_body *ctc_find_body(contactd_client *client, ctc_scene *scene, contactd_body body);
uint32_t ctc_body_of(ctc_scene *scene, uint32_t server_body); /* 0: none */
void ctc_mesh_free(ctc_mesh **mesh);
void ctc_body_free(ctc_body **body);
void ctc_scene_free(ctc_scene **scene);
const char *ctc_mesh_object(const contactd_client *client, const ctc_mesh *mesh, char buffer[CTC_OBJECT]);
const char *ctc_scene_object(const ctc_scene *scene, char buffer[CTC_OBJECT]);
/* Remembers settings that a server told, unless newer ones are known. */
void ctc_adopt_settings(ctc_scene *scene, const wire_settings *settings, uint64_t revision);

#endif
