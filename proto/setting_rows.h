/* setting_rows.h - the settings of scenes as rows: what engine, server, wire and clients loop over, so that a setting is
 * one row of catalogue/settings.toml and its use.
 *
 * A complete struct of settings has a value in each field. A partial one has -1, converted to the field's type, in those
 * that are absent; no setting has a negative value. A change (ct_settings_change) has a bit for each that is given. */
#ifndef CT_SETTING_ROWS_H
#define CT_SETTING_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/errors.h"
#include "proto/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ct_setting_type {
    CT_SETTING_IS_F64,
    CT_SETTING_IS_FLAG, /* int8_t, 0 or 1 */
    CT_SETTING_IS_U32,
    CT_SETTING_IS_U64,
    CT_SETTING_IS_U32X3, /* three, of x, y and z */
    CT_SETTING_IS_CHOICE /* an enum */
} ct_setting_type;

typedef struct ct_setting_choice {
    const char *name;
    int number;
} ct_setting_choice;

#define CT_METHODS_ALL UINT32_MAX

typedef struct ct_setting_row {
    const char *name, *unit; /* unit "": none */
    ct_setting_type type;
    size_t offset;                     /* in ct_scene_settings */
    uint8_t id;                        /* on the wire, in Settings or, is_voxels, in VoxelSettings */
    bool is_voxels;                    /* of the wire's table VoxelSettings */
    bool is_paper;                     /* a knob for experiments of the papers */
    bool is_zero_left_out;             /* a request may not name 0, and an answer leaves it out */
    double initial;                    /* the default */
    double least, most;                /* F64: of what is not 0 */
    uint64_t from, to;                 /* integers: of what is not 0 */
    const char *zero_means, *expected; /* of messages; NULL: nothing special */
    uint32_t methods, kept_by; /* bits 1 << ct_method: those that take it, and others that keep it through a change */
    ct_method chooses;         /* that a request runs which names it and no method; NONE: that of before */
    const ct_setting_choice *choices; /* ends with name NULL */
    const char *summary;
} ct_setting_row;

extern const ct_setting_row ct_setting_rows[CT_SETTINGS];

/* What a method costs on one core, for estimates; catalogue/methods.toml says what was measured. */
typedef struct ct_method_cost {
    double prepare_ns, points_ns; /* for each triangle: of a mesh that comes, of a scene with points */
    double usual_rays;            /* of a pair; 0: the method does not spend the setting ray_budget */
} ct_method_cost;

/* Of AUTO: that of a change to it. All 0: there is no such method. */
ct_method_cost ct_method_cost_of(ct_method method);

#define CT_GIVEN(setting) (UINT64_C(1) << (setting))
#define CT_GIVEN_ALL      (CT_GIVEN(CT_SETTINGS) - 1)

/* ---- one setting ---- */

/* Its value; of three, that of axis i, and of others i is 0. Integers are exact. */
double ct_setting_number(const ct_setting_row *row, const ct_scene_settings *settings);
int64_t ct_setting_integer(const ct_setting_row *row, const ct_scene_settings *settings, int i);
void ct_setting_set_number(const ct_setting_row *row, ct_scene_settings *settings, double value);
void ct_setting_set_integer(const ct_setting_row *row, ct_scene_settings *settings, int i, int64_t value);
void ct_setting_copy(const ct_setting_row *row, ct_scene_settings *to, const ct_scene_settings *from);

/* Whether it is 0, false or the first choice, of all axes. */
bool ct_setting_is_zero(const ct_setting_row *row, const ct_scene_settings *settings);

/* The name of a choice's number, and back. NULL, or false: there is none. */
const char *ct_setting_choice_name(const ct_setting_row *row, int64_t number);
bool ct_setting_choice_find(const ct_setting_row *row, const char *name, int64_t *number);
const char *ct_method_name(ct_method method);             /* "ldi"; "unknown": not in the list */
const char *ct_allocation_name(ct_allocation allocation); /* "optimal"; NULL: not in the list */

/* Checks the range, 0 allowed. OK, OUT_OF_RANGE, NON_FINITE; the message is "margin is -1 m, expected ...". */
contactd_code ct_setting_check(const ct_setting_row *row, const ct_scene_settings *settings, char *message,
                               size_t size);
/* The same of a request, which may not name 0 where 0 says that nothing is named (is_zero_left_out). */
contactd_code ct_setting_check_request(const ct_setting_row *row, const ct_scene_settings *settings, char *message,
                                       size_t size);
/* What its values are: "0 to 4096, or 0 for none". */
void ct_setting_expected(const ct_setting_row *row, bool zero_too, char *text, size_t size);

/* ---- all of them ---- */

void ct_scene_settings_init(ct_scene_settings *settings);       /* complete: the defaults */
void ct_settings_leave_out(ct_scene_settings *settings);        /* partial: all are absent */
bool ct_settings_are_filled(const ct_scene_settings *settings); /* by one of these, of this version */

/* What a partial struct gives; the others are 0. */
ct_settings_change ct_settings_given(const ct_scene_settings *partial);

/* Applies a change: the method that it names, or that its settings choose, then the settings. A change of the method
 * drops those that the new one neither takes nor keeps; max_points of VOXTREE are others than those of methods without
 * trees, and go too. OUT_OF_RANGE: the change names 0 where 0 says that nothing is named; *field and the message. */
contactd_code ct_settings_apply(ct_scene_settings *settings, const ct_settings_change *change, const char **field,
                                char *message, size_t size);

/* The first setting that is not 0 and that the method does not take; NULL: none. */
const ct_setting_row *ct_settings_not_taken(const ct_scene_settings *settings, ct_method method);
/* A method that takes it. */
ct_method ct_setting_taken_by(const ct_setting_row *row);

#ifdef __cplusplus
}
#endif

#endif
