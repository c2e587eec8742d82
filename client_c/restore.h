/* restore.h - meshes, scenes and bodies as a server has them. CTC_AGAIN as in ctc_exchange (session.h). */
#ifndef CONTACTD_RESTORE_H
#define CONTACTD_RESTORE_H

#include "client_c/client.h"

/* Makes sure that the server has the mesh; the scene with its bodies in their last state. */
contactd_code ctc_ensure_mesh(contactd_client *client, ctc_mesh *mesh);
contactd_code ctc_ensure_scene(contactd_client *client, ctc_scene *scene);
contactd_code ctc_send_register(contactd_client *client, ctc_mesh *mesh, const wire_register_mesh *source);
/* UNSUPPORTED where the answer leaves a setting out that was asked for: the server is older than it. */
contactd_code ctc_check_settings(contactd_client *client, const wire_settings *asked, const wire_settings *told,
                                 const char *object);
contactd_code ctc_send_open(contactd_client *client, ctc_scene *scene, const wire_settings *settings);
contactd_code ctc_send_add_body(contactd_client *client, ctc_scene *scene, ctc_body *body);
/* Of a body (other NULL), or between two. */
contactd_code ctc_send_material(contactd_client *client, const ctc_scene *scene, const ctc_body *body,
                                const ctc_body *other, const ct_material *material);
/* Whether a request failed because its mesh, being unused, made room for others. */
bool ctc_is_mesh_stale(const contactd_client *client, contactd_code code);

#endif
