/* marks.c - the marks of a snapshot. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/picture/picture.h"

static const int n_points[CT_MARK_KINDS] = {3, 1, 2, 2, 3, 4};

/* Strong, so that they are distinguished from the glass of bodies, and no two alike next to each other. */
const uint8_t ct_contact_color[CT_CONTACT_COLORS][3] = {
    {230, 80, 20}, {20, 90, 220}, {30, 150, 50},  {190, 30, 150},
    {0, 150, 160}, {200, 150, 0}, {110, 60, 200}, {200, 30, 50},
};

ct_status ct_marks_add(ct_snapshot *snapshot, ct_mark_kind kind, const double (*at)[3], const uint8_t color[4],
                       double size, const char *what, const char *remedy, ct_error *error) {
    ct_mark_list *list = &snapshot->marks[kind];
    if (snapshot->n_marks == CT_MAX_MARKS)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "show",
                       "snapshot: %s would need more than %d marks, which is the most that a picture shows: %s", what,
                       (int)CT_MAX_MARKS, remedy);
    if (CT_POLL_EVERY(snapshot->n_marks, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
    if (list->n == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 256;
        ct_mark *marks = realloc(list->marks, capacity * sizeof *marks);
        if (!marks) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for %u marks", capacity);
        list->marks = marks;
        list->capacity = capacity;
    }
    ct_mark *mark = &list->marks[list->n++];
    *mark = (ct_mark){.size = (float)size};
    for (int i = 0; i < n_points[kind]; i++)
        for (int k = 0; k < 3; k++) mark->at[i][k] = (float)(at[i][k] - snapshot->camera.origin[k]);
    memcpy(mark->color, color, 4);
    snapshot->n_marks++;
    return CT_OK;
}
