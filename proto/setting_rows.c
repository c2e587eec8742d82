/* setting_rows.c - see setting_rows.h. */
#include "proto/setting_rows.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/setting_rows.inc"

enum { COOKIE = 0x5ce7e004, METHODS = 32 };
static_assert((int)CT_SETTINGS < 64, "ct_settings_change.given has too few bits");

/* ---- one setting ---- */

static size_t size_of(const ct_setting_row *row) {
    switch (row->type) {
    case CT_SETTING_IS_F64:
        return sizeof(double);
    case CT_SETTING_IS_FLAG:
        return sizeof(int8_t);
    case CT_SETTING_IS_U32:
        return sizeof(uint32_t);
    case CT_SETTING_IS_U64:
        return sizeof(uint64_t);
    case CT_SETTING_IS_U32X3:
        return sizeof(uint32_t[3]);
    case CT_SETTING_IS_CHOICE:
        return sizeof(ct_method);
    }
    return 0;
}
static_assert(sizeof(ct_method) == sizeof(int) && sizeof(ct_allocation) == sizeof(int), "an enum is an int");

static char *place_of(const ct_setting_row *row, const ct_scene_settings *settings) {
    union {
        const char *in;
        char *out;
    } place = {(const char *)settings + row->offset}; /* of a struct that the caller may write */
    return place.out;
}

int64_t ct_setting_integer(const ct_setting_row *row, const ct_scene_settings *settings, int i) {
    const char *place = place_of(row, settings);
    int8_t flag;
    uint32_t u32;
    uint64_t u64;
    int choice;
    switch (row->type) {
    case CT_SETTING_IS_FLAG:
        return memcpy(&flag, place, sizeof flag), flag;
    case CT_SETTING_IS_U32:
    case CT_SETTING_IS_U32X3:
        return memcpy(&u32, place + (size_t)i * sizeof u32, sizeof u32), u32;
    case CT_SETTING_IS_U64:
        return memcpy(&u64, place, sizeof u64), (int64_t)u64;
    case CT_SETTING_IS_CHOICE:
        return memcpy(&choice, place, sizeof choice), choice;
    case CT_SETTING_IS_F64:
        break;
    }
    return 0;
}

double ct_setting_number(const ct_setting_row *row, const ct_scene_settings *settings) {
    double value;
    if (row->type != CT_SETTING_IS_F64) return (double)ct_setting_integer(row, settings, 0);
    memcpy(&value, place_of(row, settings), sizeof value);
    return value;
}

void ct_setting_set_integer(const ct_setting_row *row, ct_scene_settings *settings, int i, int64_t value) {
    char *place = place_of(row, settings);
    const int8_t flag = (int8_t)value;
    const uint32_t u32 = (uint32_t)value;
    const uint64_t u64 = (uint64_t)value;
    const int choice = (int)value;
    const double number = (double)value;
    switch (row->type) {
    case CT_SETTING_IS_F64:
        memcpy(place, &number, sizeof number);
        break;
    case CT_SETTING_IS_FLAG:
        memcpy(place, &flag, sizeof flag);
        break;
    case CT_SETTING_IS_U32:
    case CT_SETTING_IS_U32X3:
        memcpy(place + (size_t)i * sizeof u32, &u32, sizeof u32);
        break;
    case CT_SETTING_IS_U64:
        memcpy(place, &u64, sizeof u64);
        break;
    case CT_SETTING_IS_CHOICE:
        memcpy(place, &choice, sizeof choice);
        break;
    }
}

void ct_setting_set_number(const ct_setting_row *row, ct_scene_settings *settings, double value) {
    if (row->type == CT_SETTING_IS_F64)
        memcpy(place_of(row, settings), &value, sizeof value);
    else
        ct_setting_set_integer(row, settings, 0, (int64_t)value);
}

void ct_setting_copy(const ct_setting_row *row, ct_scene_settings *to, const ct_scene_settings *from) {
    memcpy(place_of(row, to), place_of(row, from), size_of(row));
}

static int axes_of(const ct_setting_row *row) {
    return row->type == CT_SETTING_IS_U32X3 ? 3 : 1;
}

static void set_all(const ct_setting_row *row, ct_scene_settings *settings, int64_t value) {
    for (int i = 0; i < axes_of(row); i++) ct_setting_set_integer(row, settings, i, value);
}

/* value: 0, or -1 converted to the type. */
static bool is_all(const ct_setting_row *row, const ct_scene_settings *settings, int64_t value) {
    if (row->type == CT_SETTING_IS_F64) return ct_setting_number(row, settings) == (double)value;
    const bool is_u32 = row->type == CT_SETTING_IS_U32 || row->type == CT_SETTING_IS_U32X3;
    const int64_t same = is_u32 ? (int64_t)(uint32_t)value : value;
    bool all = true;
    for (int i = 0; i < axes_of(row); i++) all = all && ct_setting_integer(row, settings, i) == same;
    return all;
}

bool ct_setting_is_zero(const ct_setting_row *row, const ct_scene_settings *settings) {
    return is_all(row, settings, 0);
}

/* ---- choices ---- */

const char *ct_setting_choice_name(const ct_setting_row *row, int64_t number) {
    for (const ct_setting_choice *c = row->choices; c->name; c++)
        if (c->number == number) return c->name;
    return NULL;
}

bool ct_setting_choice_find(const ct_setting_row *row, const char *name, int64_t *number) {
    for (const ct_setting_choice *c = row->choices; c->name; c++)
        if (strcmp(c->name, name) == 0) {
            *number = c->number;
            return true;
        }
    return false;
}

const char *ct_method_name(ct_method method) {
    const char *name = ct_setting_choice_name(&ct_setting_rows[CT_SETTING_METHOD], (int64_t)method);
    return name ? name : "unknown";
}

ct_method_cost ct_method_cost_of(ct_method method) {
    const size_t n = sizeof method_costs / sizeof *method_costs;
    return (size_t)method < n ? method_costs[method] : (ct_method_cost){0};
}

const char *ct_allocation_name(ct_allocation allocation) {
    return ct_setting_choice_name(&ct_setting_rows[CT_SETTING_ALLOCATION], (int64_t)allocation);
}

/* ---- ranges ---- */

static void list_choices(const ct_setting_row *row, char *text, size_t size) {
    size_t at = 0;
    *text = 0;
    for (const ct_setting_choice *c = row->choices; c->name && at < size; c++)
        at += (size_t)snprintf(text + at, size - at, "%s%s",
                               c == row->choices ? ""
                               : c[1].name       ? ", "
                                                 : " or ",
                               c->name);
}

void ct_setting_expected(const ct_setting_row *row, bool zero_too, char *text, size_t size) {
    char range[160];
    if (row->expected)
        snprintf(range, sizeof range, "%s", row->expected);
    else if (row->type == CT_SETTING_IS_FLAG)
        snprintf(range, sizeof range, "0 or 1");
    else if (row->type == CT_SETTING_IS_CHOICE)
        list_choices(row, range, sizeof range);
    else if (row->type == CT_SETTING_IS_F64)
        snprintf(range, sizeof range, "%g to %g", row->least, row->most);
    else
        snprintf(range, sizeof range, "%" PRIu64 " to %" PRIu64, row->from ? row->from : row->zero_means != NULL,
                 row->to);
    const bool is_in_range = row->type == CT_SETTING_IS_F64 && row->least == 0 && !row->expected;
    const bool says_zero = zero_too && row->zero_means && !row->is_zero_left_out && !is_in_range;
    snprintf(text, size, "%s%s%s", range, says_zero ? ", or 0 for " : "", says_zero ? row->zero_means : "");
}

static bool is_number_in_range(const ct_setting_row *row, double value) {
    return value == 0 || (value >= row->least && value <= row->most && value > 0);
}

static bool is_integer_in_range(const ct_setting_row *row, int64_t value) {
    if (row->type == CT_SETTING_IS_CHOICE) return ct_setting_choice_name(row, value) != NULL;
    if (row->type == CT_SETTING_IS_FLAG) return value == 0 || value == 1;
    return value == 0 || (value > 0 && (uint64_t)value >= row->from && (uint64_t)value <= row->to);
}

contactd_code ct_setting_check(const ct_setting_row *row, const ct_scene_settings *settings, char *message,
                               size_t size) {
    char expected[400];
    if (row->type == CT_SETTING_IS_F64) {
        const double value = ct_setting_number(row, settings);
        if (is_number_in_range(row, value)) return CONTACTD_OK;
        ct_setting_expected(row, true, expected, sizeof expected);
        snprintf(message, size, "%s is %g%s%s, expected %s", row->name, value, *row->unit ? " " : "", row->unit,
                 expected);
        return isfinite(value) ? CONTACTD_OUT_OF_RANGE : CONTACTD_NON_FINITE;
    }
    if (row->type == CT_SETTING_IS_U32X3 && ct_setting_is_zero(row, settings)) return CONTACTD_OK;
    for (int i = 0; i < axes_of(row); i++) {
        const int64_t value = ct_setting_integer(row, settings, i);
        const bool is_axis = row->type == CT_SETTING_IS_U32X3;
        if (is_integer_in_range(row, value) && !(is_axis && value == 0)) continue;
        ct_setting_expected(row, true, expected, sizeof expected);
        const char along[] = {' ', 'a', 'l', 'o', 'n', 'g', ' ', "xyz"[i], 0};
        if (value < 0 && row->type == CT_SETTING_IS_U64) /* above what an int64_t has */
            snprintf(message, size, "%s is %" PRIu64 ", expected %s", row->name, (uint64_t)value, expected);
        else
            snprintf(message, size, "%s is %" PRId64 "%s, expected %s", row->name, value, is_axis ? along : "",
                     expected);
        return CONTACTD_OUT_OF_RANGE;
    }
    return CONTACTD_OK;
}

contactd_code ct_setting_check_request(const ct_setting_row *row, const ct_scene_settings *settings, char *message,
                                       size_t size) {
    if (!row->is_zero_left_out || !ct_setting_is_zero(row, settings))
        return ct_setting_check(row, settings, message, size);
    char expected[400];
    ct_setting_expected(row, false, expected, sizeof expected);
    snprintf(message, size, "%s is 0, expected %s, or none at all: %s", row->name, expected, row->zero_means);
    return CONTACTD_OUT_OF_RANGE;
}

/* ---- all of them ---- */

void ct_scene_settings_init(ct_scene_settings *settings) {
    memset(settings, 0, sizeof *settings);
    settings->cookie = COOKIE;
    for (int s = 0; s < CT_SETTINGS; s++)
        for (int i = 0; i < axes_of(&ct_setting_rows[s]); i++)
            if (ct_setting_rows[s].type == CT_SETTING_IS_F64)
                ct_setting_set_number(&ct_setting_rows[s], settings, ct_setting_rows[s].initial);
            else
                ct_setting_set_integer(&ct_setting_rows[s], settings, i, (int64_t)ct_setting_rows[s].initial);
}

void ct_settings_leave_out(ct_scene_settings *settings) {
    memset(settings, 0, sizeof *settings);
    settings->cookie = COOKIE;
    for (int s = 0; s < CT_SETTINGS; s++) set_all(&ct_setting_rows[s], settings, -1);
}

bool ct_settings_are_filled(const ct_scene_settings *settings) {
    return settings->cookie == COOKIE;
}

ct_settings_change ct_settings_given(const ct_scene_settings *partial) {
    ct_settings_change change = {0, *partial};
    for (int s = 0; s < CT_SETTINGS; s++)
        if (!is_all(&ct_setting_rows[s], partial, -1))
            change.given |= CT_GIVEN(s);
        else
            set_all(&ct_setting_rows[s], &change.to, 0);
    return change;
}

/* The method that the settings of a change call for: of the first in the rows' order. */
static ct_method chosen_by(const ct_settings_change *change) {
    if (change->given & CT_GIVEN(CT_SETTING_METHOD)) return change->to.method;
    for (int s = 0; s < CT_SETTINGS; s++)
        if (change->given & CT_GIVEN(s) && ct_setting_rows[s].chooses &&
            !ct_setting_is_zero(&ct_setting_rows[s], &change->to))
            return ct_setting_rows[s].chooses;
    return CT_METHOD_NONE;
}

static void change_method(ct_scene_settings *settings, ct_method method) {
    const bool had_trees = settings->method == CT_METHOD_VOXTREE;
    settings->method = method;
    const uint32_t bit = (unsigned)method < METHODS ? 1u << method : 0;
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = &ct_setting_rows[s];
        if (row->methods != CT_METHODS_ALL && !((row->methods | row->kept_by) & bit)) set_all(row, settings, 0);
    }
    if (had_trees && method != CT_METHOD_VOXTREE) settings->max_points = 0;
}

contactd_code ct_settings_apply(ct_scene_settings *settings, const ct_settings_change *change, const char **field,
                                char *message, size_t size) {
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = &ct_setting_rows[s];
        if (!(change->given & CT_GIVEN(s)) || !row->is_zero_left_out || !ct_setting_is_zero(row, &change->to)) continue;
        *field = row->name;
        return ct_setting_check_request(row, &change->to, message, size);
    }
    const ct_method method = chosen_by(change);
    const bool is_named = change->given & CT_GIVEN(CT_SETTING_METHOD);
    if (is_named || (method && method != settings->method)) change_method(settings, method);
    for (int s = 0; s < CT_SETTINGS; s++)
        if (change->given & CT_GIVEN(s)) ct_setting_copy(&ct_setting_rows[s], settings, &change->to);
    return CONTACTD_OK;
}

const ct_setting_row *ct_settings_not_taken(const ct_scene_settings *settings, ct_method method) {
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = &ct_setting_rows[s];
        if (row->methods != CT_METHODS_ALL && !(row->methods & 1u << method) && !ct_setting_is_zero(row, settings))
            return row;
    }
    return NULL;
}

ct_method ct_setting_taken_by(const ct_setting_row *row) {
    for (int method = 1; method < METHODS; method++)
        if (row->methods & 1u << method) return (ct_method)method;
    return CT_METHOD_NONE;
}
