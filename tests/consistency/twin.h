/* twin.h - the same scene on two engines, whose answers are compared bit for bit: for consistency tests of backends.
 */
#ifndef CONSISTENCY_TWIN_H
#define CONSISTENCY_TWIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/backend.h"
#include "tests/scenes/stage.h"

/* The CPU backend, and another that is held to it. */
static ct_engine *engines[2];

struct twin {
    struct stage of[2];
};

static struct twin twin_open(const ct_scene_settings *settings, const struct placed *bodies, int n) {
    struct twin twin;
    for (int e = 0; e < 2; e++) twin.of[e] = stage_open(engines[e], settings, bodies, n);
    return twin;
}

static void twin_close(struct twin *twin) {
    for (int e = 0; e < 2; e++) stage_close(&twin->of[e]);
}

static void assert_same_state(const struct twin *twin) {
    for (size_t i = 0; i < ct_scene_body_count(twin->of[0].scene); i++) {
        ct_body_info info[2];
        for (int e = 0; e < 2; e++) assert_int_equal(ct_scene_body_at(twin->of[e].scene, i, &info[e]), CT_OK);
        assert_memory_equal(info[0].pose, info[1].pose, sizeof info[0].pose);
        for (int k = 0; k < 3; k++) {
            assert_true(info[0].lo[k] == info[1].lo[k]);
            assert_true(info[0].hi[k] == info[1].hi[k]);
        }
    }
}

/* What stage_hash takes only of steps with velocities. */
static void assert_same_slip(const char *name, const ct_result *a, const ct_result *b) {
    if (a->n_contacts != b->n_contacts || a->n_entries != b->n_entries) return; /* the hashes differ */
    for (size_t i = 0; i < a->n_contacts; i++) {
        const ct_contact *c = &a->contacts[i], *d = &b->contacts[i];
        if (memcmp(c->side_center, d->side_center, sizeof c->side_center) ||
            memcmp(c->relative_velocity, d->relative_velocity, sizeof c->relative_velocity) || c->spin != d->spin ||
            memcmp(c->friction, d->friction, sizeof c->friction))
            fail_msg("%s: contact %zu: centres of sides, slip or friction differ", name, i);
    }
    assert_true(!a->friction_forces == !b->friction_forces);
    if (a->friction_forces) assert_memory_equal(a->friction_forces, b->friction_forces, 24 * a->n_entries);
}

static void assert_same_separations(const char *name, const ct_result *a, const ct_result *b) {
    if (a->n_separations != b->n_separations)
        fail_msg("%s: %zu separations, but %zu", name, a->n_separations, b->n_separations);
    for (size_t i = 0; i < a->n_separations; i++)
        assert_memory_equal(&a->separations[i], &b->separations[i], sizeof *a->separations);
}

/* What else a method says that aims at a tolerance. */
static void assert_same_bounds(const char *name, const ct_result *a, const ct_result *b) {
    if (a->passes != b->passes || a->ended != b->ended || a->quality != b->quality || a->rays != b->rays)
        fail_msg("%s: %llu rays in %u passes, ended %d, quality %g; the other %llu in %u, %d, %g", name,
                 (unsigned long long)a->rays, a->passes, a->ended, a->quality, (unsigned long long)b->rays, b->passes,
                 b->ended, b->quality);
    for (size_t i = 0; i < a->n_contacts && i < b->n_contacts; i++) {
        const ct_contact *c = &a->contacts[i], *d = &b->contacts[i];
        if (memcmp(c->error_bounds, d->error_bounds, sizeof c->error_bounds) || c->error_bound != d->error_bound ||
            c->error_estimate != d->error_estimate)
            fail_msg("%s: contact %zu: bounds %.17g %.17g %.17g; the other has %.17g %.17g %.17g", name, i,
                     c->error_bounds[0], c->error_bounds[1], c->error_bounds[2], d->error_bounds[0], d->error_bounds[1],
                     d->error_bounds[2]);
    }
}

/* What else VOXTREE says of its pairs. */
static void assert_same_progress(const char *name, const ct_result *a, const ct_result *b) {
    if (a->n_progress != b->n_progress || a->ended != b->ended || a->quality != b->quality ||
        a->fragments != b->fragments || a->rays != b->rays)
        fail_msg("%s: %zu pairs, ended %d, quality %g; the other %zu, %d, %g", name, (size_t)a->n_progress, a->ended,
                 a->quality, (size_t)b->n_progress, b->ended, b->quality);
    for (size_t i = 0; i < a->n_progress; i++) assert_int_equal(a->progress[i].is_refined, b->progress[i].is_refined);
}

static void assert_same_warnings(const char *name, const ct_result *a, const ct_result *b) {
    if (a->n_warnings != b->n_warnings) fail_msg("%s: %zu and %zu warnings", name, a->n_warnings, b->n_warnings);
    for (size_t i = 0; i < a->n_warnings; i++) {
        assert_int_equal(a->warnings[i].code, b->warnings[i].code);
        assert_int_equal(a->warnings[i].body, b->warnings[i].body);
    }
}

/* One step of each of n pairs of scenes, as one batch. Returns the contacts found. */
static uint64_t compare(const char *name, struct twin *twins, const ct_update *const *updates, const size_t *n_updates,
                        size_t n, uint32_t want) {
    ct_step *steps[2];
    uint64_t contacts = 0;
    for (int e = 0; e < 2; e++) {
        steps[e] = calloc(n, sizeof *steps[e]);
        assert_non_null(steps[e]);
        for (size_t i = 0; i < n; i++)
            steps[e][i] = (ct_step){.scene = twins[i].of[e].scene,
                                    .updates = updates ? updates[i] : NULL,
                                    .n_updates = n_updates ? n_updates[i] : 0,
                                    .want = want};
        ct_engine_run(engines[e], steps[e], n);
    }
    for (size_t i = 0; i < n; i++) {
        const ct_step *a = &steps[0][i], *b = &steps[1][i];
        if (a->error.status != b->error.status)
            fail_msg("%s: step %zu: \"%s\" but \"%s\"", name, i, a->error.message, b->error.message);
        assert_string_equal(a->error.field, b->error.field);
        assert_string_equal(a->error.message, b->error.message);
        assert_same_state(&twins[i]);
        if (a->error.status) continue;
        char hex[2][33];
        stage_hash(a->result, hex[0]);
        stage_hash(b->result, hex[1]);
        if (a->result->method == CT_METHOD_EXACT) assert_int_equal(a->result->fragments, b->result->fragments);
        assert_same_slip(name, a->result, b->result);
        assert_same_separations(name, a->result, b->result);
        assert_same_warnings(name, a->result, b->result);
        if (a->result->method == CT_METHOD_EBPI) assert_same_bounds(name, a->result, b->result);
        if (a->result->method == CT_METHOD_VOXTREE) assert_same_progress(name, a->result, b->result);
        for (size_t k = 0; k < a->result->n_contacts && k < b->result->n_contacts; k++) {
            const double c = a->result->contacts[k].inverted_volume, d = b->result->contacts[k].inverted_volume;
            if (!(c == d || (isnan(c) && isnan(d)))) fail_msg("%s: inverted volume %.17g and %.17g", name, c, d);
        }
        for (size_t k = 0; k < a->result->n_contacts && a->result->method == CT_METHOD_EXACT; k++) {
            const ct_contact *c = &a->result->contacts[k], *d = &b->result->contacts[k];
            assert_true(c->error_bound == d->error_bound);
            assert_int_equal(c->max_winding, d->max_winding);
            assert_int_equal(c->inverted_triangles, d->inverted_triangles);
            assert_int_equal(c->is_nested, d->is_nested);
        }
        if (strcmp(hex[0], hex[1]) != 0)
            fail_msg(
                "%s: step %zu of %zu: %zu contacts, %llu entries, %llu spans, %llu pairs, %llu rays; the other has "
                "%zu, %llu, %llu, %llu, %llu",
                name, i, n, a->result->n_contacts, (unsigned long long)a->result->n_entries,
                (unsigned long long)a->result->n_spans, (unsigned long long)a->result->pairs,
                (unsigned long long)a->result->rays, b->result->n_contacts, (unsigned long long)b->result->n_entries,
                (unsigned long long)b->result->n_spans, (unsigned long long)b->result->pairs,
                (unsigned long long)b->result->rays);
        contacts += a->result->n_contacts;
        for (int e = 0; e < 2; e++) {
            ct_result_free(&steps[e][i].result);
            assert_null(steps[e][i].result);
        }
    }
    free(steps[0]);
    free(steps[1]);
    return contacts;
}

static inline uint64_t compare_once(const char *name, const ct_scene_settings *settings, const struct placed *bodies,
                                    int n, uint32_t want) {
    struct twin twin = twin_open(settings, bodies, n);
    uint64_t contacts = compare(name, &twin, NULL, NULL, 1, want);
    twin_close(&twin);
    return contacts;
}

static ct_engine *open_backend(const char *name, const char *rasterizer, ct_error *error) {
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_engine_options_init(&options);
    options.backend = name;
    options.rasterizer = rasterizer;
    options.threads = 2;
    ct_engine_create(&options, &engine, error);
    return engine;
}

/* Runs a test program's tests on every available backend but the CPU's own rasteriser, with each of the rasterisers. */
static int twin_run_on_backends(const struct CMUnitTest *tests, size_t n_tests, const char *const *rasterizers,
                                size_t n_rasterizers) {
    int failed = 0;
    const ct_backend *backend;
    ct_error error = {0};
    engines[0] = open_backend("cpu", "native", &error);
    for (size_t i = 0; engines[0] && (backend = ct_backend_at(i / n_rasterizers)); i++) {
        if (i % n_rasterizers && !strcmp(backend->name, "cpu")) continue; /* test_egl_gl.c */
        char name[32];
        snprintf(name, sizeof name, "%s, %s", backend->name, rasterizers[i % n_rasterizers]);
        memset(&error, 0, sizeof error);
        engines[1] = open_backend(backend->name, rasterizers[i % n_rasterizers], &error);
        if (!engines[1]) {
            printf("[  SKIPPED ] backend %s: %s\n", name, error.message);
            continue;
        }
        ct_engine_facts facts;
        ct_engine_get_facts(engines[1], 0, &facts);
        printf("backend %s on %s\n", name, facts.device);
        failed += _cmocka_run_group_tests(name, tests, n_tests, NULL, NULL);
        ct_engine_destroy(&engines[1]);
    }
    ct_engine_destroy(&engines[0]);
    return failed;
}

#endif
