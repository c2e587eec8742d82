/* table.c - contactctl's commands: help, manual page, completion and parsing are made of these and of options.c. */
#include "client_c/ctl/table.h"

#define SETTINGS ((CTL_BIT(CT_SETTINGS) - 1) << OPT_SETTING)

#define PICTURE                                                                                                        \
    (CTL_BIT(OPT_WIDTH) | CTL_BIT(OPT_HEIGHT) | CTL_BIT(OPT_CONTACT) | CTL_BIT(OPT_SHOW) | CTL_BIT(OPT_RESOLUTION) |   \
     CTL_BIT(OPT_AZIMUTH) | CTL_BIT(OPT_ELEVATION) | CTL_BIT(OPT_UP) | CTL_BIT(OPT_EYE) | CTL_BIT(OPT_TARGET) |        \
     CTL_BIT(OPT_ZOOM) | CTL_BIT(OPT_FIELD_OF_VIEW) | CTL_BIT(OPT_OPACITY) | CTL_BIT(OPT_BACKGROUND))

#define MAKING                                                                                                         \
    (CTL_BIT(OPT_REPAIR) | CTL_BIT(OPT_MAX_HOLE) | CTL_BIT(OPT_WELD) | CTL_BIT(OPT_SCALE) | CTL_BIT(OPT_UNIT) |        \
     CTL_BIT(OPT_OPEN_DIRECTION) | CTL_BIT(OPT_CLOSING) | CTL_BIT(OPT_WRAP_RESOLUTION))

const ctl_command ctl_commands[] = {
    {"contact", NULL, "A [B]",
     "intersection of two meshes, files or hashes that the server has, or of one and a half-space", 1, 2,
     SETTINGS | CTL_BIT(OPT_HALF_SPACE) | CTL_BIT(OPT_POSE_A) | CTL_BIT(OPT_POSE_B) | CTL_BIT(OPT_TWIST_A) |
         CTL_BIT(OPT_TWIST_B) | CTL_BIT(OPT_VISCOSITY) | CTL_BIT(OPT_MODULUS) | CTL_BIT(OPT_FRICTION) |
         CTL_BIT(OPT_STATIC_FRICTION) | CTL_BIT(OPT_DISSIPATION) | CTL_BIT(OPT_BUDGET) | CTL_BIT(OPT_INERTIA) |
         CTL_BIT(OPT_SURFACE) | CTL_BIT(OPT_SELF) | MAKING,
     ctl_contact,
     "contact nut.stl bolt.stl --scale 0.001\n"
     "contact 1f0a9c3e bolt.stl\n"
     "contact ball.obj --half-space 0,0,1,0 -o json\n"
     "contact a.ply b.ply --pose-b \"1 0 0 0.5  0 1 0 0  0 0 1 0\"\n"
     "contact a.ply b.ply --law pressure --modulus 1e6 --friction 0.5 --twist-b \"0.1 0 0 0 0 0\"\n"},
    {"judge", NULL, "POSES.csv NAME=FILE...",
     "how deep bodies were inside each other: of meshes, and a table of their poses over time with the columns time, "
     "body, "
     "x, y, z, qx, qy, qz, qw",
     2, 256, CTL_BIT(OPT_LIMIT) | CTL_BIT(OPT_IGNORE) | MAKING, ctl_judge,
     "judge poses.csv nut=nut.stl bolt=bolt.stl --scale 0.001\n"
     "judge poses.csv nut=nut.stl bolt=bolt.stl --limit 1e-4 --json\n"},
    {"mesh", "add", "FILE...", "register GLB, glTF, OBJ, OFF, PLY or STL files", 1, 256, CTL_BIT(OPT_NAME) | MAKING,
     ctl_mesh_add,
     "mesh add nut.stl bolt.stl --scale 0.001\n"
     "mesh add scan.ply --repair --name scan\n"},
    {"mesh", "list", "", "the server's meshes", 0, 0, 0, ctl_mesh_list,
     "mesh list\n"
     "mesh list --json\n"},
    {"mesh", "rm", "HASH...", "remove meshes, by their hash or its first 8 digits or more", 1, 256, 0, ctl_mesh_rm,
     "mesh rm 1f0a9c3e\n"},
    {"scene", "list", "", "the server's scenes", 0, 0, 0, ctl_scene_list,
     "scene list\n"
     "--server tcp://lab:5555 scene list -o json\n"},
    {"scene", "show", "ID", "one scene, its bodies, and the contacts of its last step", 1, 1, 0, ctl_scene_show,
     "scene show 3\n"},
    {"scene", "set", "ID", "change a scene's settings, from its next step on", 1, 1, SETTINGS | CTL_BIT(OPT_NO_PATCHES),
     ctl_scene_set,
     "scene set 3 --margin 0.002\n"
     "scene set 3 --method ebpi --tolerance 1e-9\n"},
    {"scene", "close", "ID", "close a scene, whichever client's it is", 1, 1, 0, ctl_scene_close, "scene close 3\n"},
    {"bodies", NULL, "SCENE", "a scene's bodies", 1, 1, 0, ctl_bodies, "bodies 3\n"},
    {"contacts", NULL, "SCENE", "the contacts of the last step of a scene", 1, 1,
     CTL_BIT(OPT_SORT) | CTL_BIT(OPT_BODY) | CTL_BIT(OPT_WATCH) | CTL_BIT(OPT_INTERVAL), ctl_contacts,
     "contacts 3\n"
     "contacts 3 --sort depth --body 7\n"
     "contacts 3 --watch --interval 0.5\n"},
    {"sessions", NULL, "", "the server's clients, or those of each of several", 0, 0, 0, ctl_sessions,
     "sessions\n"
     "sessions --server tcp://a:5555,tcp://b:5555\n"},
    {"snapshot", NULL, "SCENE", "a picture of a scene or a contact, as PNG: -o FILE, or -o - for standard output", 1, 1,
     PICTURE, ctl_snapshot,
     "snapshot 3 -o scene.png\n"
     "snapshot 3 --contact \"1 2\" --show contacts,gradients -o pair.png\n"},
    {"status", NULL, "", "what the server is and does", 0, 0, 0, ctl_status,
     "status\n"
     "status --json\n"},
    {"record", NULL, "FILE [COMMAND...]",
     "pass all messages between simulators and the server on, and keep them in FILE; until Ctrl-C, or until COMMAND "
     "ends, which finds the way in CONTACTD_SERVER; what follows COMMAND is its own",
     1, 255, CTL_BIT(OPT_LISTEN), ctl_record,
     "record bug.rec -- python3 simulation.py --steps 100\n"
     "record bug.rec --listen tcp://127.0.0.1:6000\n"},
    {"replay", NULL, "FILE", "send a recording's requests to the server and compare its answers bit by bit", 1, 1,
     CTL_BIT(OPT_ANY_BUILD), ctl_replay,
     "replay bug.rec\n"
     "replay bug.rec --any-build --json\n"},
    {"top", NULL, "",
     "what the server does, or each of several, by the second: rates, latencies, queue, the busiest scenes; on a "
     "terminal h shows its "
     "keys",
     0, 0, CTL_BIT(OPT_ONCE) | CTL_BIT(OPT_INTERVAL), ctl_top,
     "top\n"
     "top --interval 5\n"
     "top --once --json\n"},
    {"drain", NULL, "", "end the server: it answers what it has, refuses new work, and ends", 0, 0, 0, ctl_drain,
     "drain --server tcp://lab:5555\n"},
    {"keys", "new", "NAME", "a key pair for server or client in NAME.key; prints its line for --principals", 1, 1,
     CTL_BIT(OPT_ROLE), ctl_keys_new,
     "keys new lab-7 >> principals\n"
     "keys new lab-7 --role admin\n"},
    {"keys", "cert", "NAME [HOST...]",
     "a certificate that signs itself, for HTTPS: NAME.pem and NAME-key.pem, for these hosts and this one", 1, 32,
     CTL_BIT(OPT_DAYS), ctl_keys_cert,
     "keys cert lab\n"
     "keys cert lab contactd.lab.example 10.0.0.7 --days 30\n"},
    {"tokens", "new", "NAME", "a token for HTTP in NAME.token; prints its line for --principals", 1, 1,
     CTL_BIT(OPT_ROLE), ctl_tokens_new, "tokens new dashboard --role operator >> principals\n"},
    {"doctor", NULL, "", "check connection, versions, readiness and a real step, and say what to do", 0, 0, 0,
     ctl_doctor,
     "doctor\n"
     "doctor --server tcp://lab:5555\n"},
    {"bench", NULL, "", "latency and rate of steps with two boxes", 0, 0,
     CTL_BIT(OPT_SECONDS) | CTL_BIT(OPT_RESOLUTION) | CTL_BIT(OPT_SPIN), ctl_bench,
     "bench\n"
     "bench --seconds 10 --spin-us 0\n"},
    {"help", NULL, "[COMMAND]", "the commands, those of a noun, or the options of one: help scene set", 0, 2, 0,
     ctl_help,
     "help\n"
     "help scene set\n"},
    {"completion", NULL, "bash|zsh|fish", "the completion script of a shell, to be sourced or installed", 1, 1, 0,
     ctl_completion, "completion bash > ~/.local/share/bash-completion/completions/contactctl\n"},
    {"man-page", NULL, "", "the manual page, as roff", 0, 0, 0, ctl_man_page, "man-page | man -l -\n"},
};
const int ctl_command_count = sizeof ctl_commands / sizeof *ctl_commands;
