/* session.h - the benches' client of a running contactd: one a process, which dies of whatever fails, saying what; and
 * two bodies that overlap, for it to step. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "client_c/contactd.h"
#include "tests/scenes/shapes.h"

extern contactd_client *client;

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
void must(contactd_code code, const char *what); /* dies unless it is CONTACTD_OK */

/* spin_us: how long the client waits awake; UINT32_MAX: as long as it does by itself. */
void connect_to(const char *endpoint, const char *name, uint32_t spin_us);

contactd_mesh register_shape(struct shape shape, const char *name); /* frees the shape */

typedef struct couple {
    contactd_scene scene;
    contactd_update updates[2];
    double start; /* m, where the second is along x when nothing has moved */
} couple;

/* Two rigid bodies of one mesh that overlap: the second is turned by the angle (rad) and shifted. */
couple open_couple(contactd_mesh mesh, const uint32_t resolution[3], double angle, const double shift[3]);
couple open_boxes(void);          /* two unit boxes, 32 rays across */
void move(couple *c, unsigned k); /* the second wanders a little along x: where it is at step k */

#endif
