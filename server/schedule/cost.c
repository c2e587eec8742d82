/* cost.c - what a command is expected to cost, in processor time: by what the last steps of its scene took, or by what
 * is in the scene. For the scheduler; all with its lock held. */
#include <math.h>

#include "proto/setting_rows.h"
#include "server/schedule/internal.h"

enum { CONTROLS_AT_ONCE = 16 }; /* commands before a step that one batch runs of one scene */

/* Rays that a pair of bodies casts with the method LDI, at most: no window is larger than the smaller body. 0 for a
 * method without samples. */
static double lattice_rays(const scene *scene) {
    const ct_scene_settings *settings = &scene->record.running;
    if (settings->pixel_size > 0) {
        double across = scene->size_m[1] / settings->pixel_size;
        return 3 * across * across;
    }
    const uint32_t *n = settings->resolution;
    return (double)n[0] * n[1] + (double)n[1] * n[2] + (double)n[2] * n[0];
}

static double budget_rays(const scene *scene) {
    const uint64_t budget = scene->record.running.ray_budget;
    return (double)(budget ? budget : CT_DEFAULT_RAY_BUDGET);
}

/* An estimate for a scene whose steps were not measured since its bodies or settings changed. It counts what is in the
 * scene, and is an overestimate for most scenes. There are some whose triangles cross each other so often that they
 * take a thousand times as long: those are preempted. */
static double estimate_step(const scene *scene, const command *step, double speed) {
    const ct_scene_settings *settings = &scene->record.running;
    const double bodies = (double)scene->n_uses, pairs = bodies > 2 ? bodies - 1 : 1;
    const ct_method_cost method = ct_method_cost_of(settings->method);
    const double rays = method.usual_rays > 0 ? budget_rays(scene) : lattice_rays(scene);
    double surface = 100e-9 * (double)scene->triangles, sampling = 5e-9 * rays * pairs;
    if (settings->patches) surface *= 4;
    if (settings->law != CT_LAW_VOLUME) surface *= 3; /* 2 to 2.8 times as long, as deep as spheres may be */
    if (settings->max_points) surface += 1e-9 * method.points_ns * (double)scene->triangles;
    if (settings->cell_size > 0) sampling *= 2;
    double cost = 30e-6 + (surface + sampling) / speed + 1e-6 * settings->max_points * pairs;
    if (settings->margin > 0) cost += 50e-6 * bodies * (bodies - 1) / 2; /* on the host, whatever the device */
    const double directions =
        (double)(step->in.step.n_directions < CT_MAX_DIRECTIONS ? step->in.step.n_directions : CT_MAX_DIRECTIONS);
    return cost * (1 + directions / 2);
}

/* Estimated while the scene has not been stepped since its bodies or settings changed. Afterwards it is what was
 * measured, but not much less than the scene's size suggests, as its bodies may come close in the next step. */
static double cost_of_step(const scene *scene, const command *step, double speed) {
    if (!(scene->cost_s > 0)) return estimate_step(scene, step, speed);
    const double usual = ct_method_cost_of(scene->record.running.method).usual_rays;
    const double rays = usual > 0 ? fmin(budget_rays(scene), usual) : lattice_rays(scene);
    const double least = (10e-9 * (double)scene->triangles + 1e-9 * rays) / speed;
    return scene->cost_s > least ? scene->cost_s : least;
}

/* A step for its samples, a step for what the scene's method finds, and a copy, on the runner; it is drawn elsewhere.
 * Films of contacts look at all triangles, along their edges: 0.3 s of two bodies of 346,000 triangles each.
 * INLINE_SECONDS keeps all of them off the I/O thread. */
static double cost_of_snapshot(const scene *scene, const command *command, double speed) {
    const ct_snapshot_options *options = &command->in.snapshot.options;
    const double step = cost_of_step(scene, &(struct command){.kind = COMMAND_STEP}, speed),
                 triangles = (double)scene->triangles;
    double cost = INLINE_SECONDS + step + 5e-9 * triangles +
                  15e-9 * (double)options->resolution * (double)options->resolution / speed;
    if (options->show & ~(uint32_t)CT_SHOW_DEFAULT) cost += step;
    if (options->show & CT_SHOW_CONTACTS) cost += 450e-9 * triangles;
    return cost;
}

/* For each triangle of a mesh, s. An overestimate: another body may have had it made. */
static double preparation_of(ct_method method) {
    return 1e-9 * ct_method_cost_of(method).prepare_ns;
}

/* A change of the method makes for all meshes at once what the new one needs. */
static double cost_of_change(const scene *scene, const ct_settings_change *change, double speed) {
    ct_scene_settings changed = scene->record.settings;
    const char *field;
    char message[512];
    /* One that is refused costs nothing. */
    if (ct_settings_apply(&changed, change, &field, message, sizeof message)) return 1e-6;
    const double preparation = preparation_of(changed.method);
    return 1e-6 + preparation * (double)scene->triangles / speed;
}

static double cost_of_control(const scene *scene, const command *command, double speed) {
    if (command_brings_mesh(command))
        return 1e-6 + (5e-9 + preparation_of(scene->record.running.method) / speed) * (double)command->triangles;
    if (command->kind == COMMAND_CONFIGURE) return cost_of_change(scene, &command->in.configure.settings, speed);
    if (command->kind == COMMAND_CLOSE) return 1e-6 + 5e-9 * (double)scene->triangles;
    if (command->kind == COMMAND_RESET || command->kind == COMMAND_COPY) /* it makes positions of deformable bodies */
        return 5e-6 + 1e-9 * (double)scene->triangles;
    if (command->is_repeat) return 1e-6 + 1e-9 * (double)command->answer->bytes; /* to encode it */
    if (command->kind == COMMAND_SNAPSHOT) return cost_of_snapshot(scene, command, speed);
    return 1e-6;
}

static bool changes_cost(const command *command) {
    return command_brings_mesh(command) || command->kind == COMMAND_CONFIGURE;
}

/* Whether it takes long where bodies, meshes and settings are unlike those that the estimates were made for. */
static bool is_uncertain(const command *command) {
    return changes_cost(command) || command->kind == COMMAND_SNAPSHOT || command->kind == COMMAND_COPY ||
           command->kind == COMMAND_RESET;
}

/* A step behind a change of bodies or settings runs in a later batch, as its cost is not known before the change. */
portion scheduler_next_portion(const scene *scene, double speed) {
    portion portion = {.is_measured = true};
    bool changed = false;
    for (const command *command = scene->first; command && !portion.has_step && portion.n < CONTROLS_AT_ONCE;
         command = command->next) {
        bool step = command->kind == COMMAND_STEP && !command->is_repeat;
        if ((step && changed) || command_is_held(scene, command)) break;
        if (command->is_preempted && portion.n) break;
        portion.has_step = step;
        changed = changed || changes_cost(command);
        portion.is_measured = portion.is_measured && !is_uncertain(command) && !(step && !(scene->cost_s > 0));
        portion.cost_s += step ? cost_of_step(scene, command, speed) : cost_of_control(scene, command, speed);
        portion.n++;
        portion.is_preempted = command->is_preempted;
        if (portion.is_preempted) break;
    }
    return portion;
}

/* Where other programs take the processor in the middle of a step, it looks expensive. So the smaller of the last two
 * measurements counts; but a step that was preempted did take long, and then it took what was measured. */
void scheduler_note_cost(scene *scene, const command *command) {
    double cost = command->kind == COMMAND_STEP && !command->is_repeat ? command->answer->cost_s : 0;
    if (cost > 0) {
        const bool is_doubtful = !command->is_preempted && scene->last_cost_s > 0 && scene->last_cost_s < cost;
        const double now = is_doubtful ? scene->last_cost_s : cost;
        scene->cost_s = now > scene->cost_s ? now : 0.9 * scene->cost_s + 0.1 * now;
        scene->last_cost_s = cost;
    } else if (changes_cost(command)) {
        scene->cost_s = scene->last_cost_s = 0;
    }
}
