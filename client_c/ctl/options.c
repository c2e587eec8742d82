/* options.c - contactctl's options. */
#include "client_c/ctl/options.h"

#include <assert.h>

static_assert((int)OPT_COUNT <= 128, "ctl_set has a bit per option");

const ctl_option_row ctl_options[OPT_COUNT] = {
    [OPT_SERVER] = {"--server", "ADDRESS",
                    "HOST:PORT or ipc://PATH; several between commas, also dns://HOST:PORT and file:PATH, are tried in "
                    "turn, but sessions and top show all; default: CONTACTD_SERVER, else tcp://127.0.0.1:5555"},
    [OPT_SERVER_KEY] = {"--server-key", "KEY|FILE", "the server's public key; default: CONTACTD_SERVER_KEY"},
    [OPT_CLIENT_KEY] = {"--client-key", "FILE", "your key pair; default: CONTACTD_CLIENT_KEY, a file or a secret key"},
    [OPT_OUTPUT] = {"--output", "json|table", "also -o; default: table. Of snapshot: the picture's file"},
    [OPT_JSON] = {"--json", NULL, "the same as --output json"},
    [OPT_TIMEOUT] = {"--timeout", "SECONDS",
                     "of each request, default: 10; of several servers each has as long to answer, default: 2"},
    [OPT_HELP] = {"--help", NULL, "this text"},
    [OPT_VERSION] = {"--version", NULL, "the version"},
    [OPT_POSE_A] = {"--pose-a", "\"12 NUMBERS\"",
                    "pose of A: row-major 3x4 [R|t], or 7: x y z qx qy qz qw; default: identity"},
    [OPT_POSE_B] = {"--pose-b", "\"12 NUMBERS\"", "pose of B"},
    [OPT_TWIST_A] = {"--twist-a", "\"6 NUMBERS\"",
                     "velocity of A: of its origin in m/s, then angular in rad/s; adds slip; default: at rest"},
    [OPT_TWIST_B] = {"--twist-b", "\"6 NUMBERS\"", "velocity of B, or of the half-space"},
    [OPT_VISCOSITY] = {"--viscosity", "NU", "viscous friction against the slip, in N s/m^3; with --twist-a or -b"},
    [OPT_MODULUS] = {"--modulus", "K", "law pressure: of both bodies, in N/m^3; default: 1e7"},
    [OPT_FRICTION] = {"--friction", "MU", "law pressure: of both bodies; default: 0; acts with --twist-a or -b"},
    [OPT_STATIC_FRICTION] = {"--static-friction", "MU", "law pressure: where they stick; default: --friction"},
    [OPT_DISSIPATION] = {"--dissipation", "D", "law pressure: in s/m; default: 0; acts with --twist-a or -b"},
    [OPT_BUDGET] = {"--budget-us", "N", "voxtree: microseconds in which to answer; default: no limit"},
    [OPT_SURFACE] = {"--surface", NULL, "also the contact surface, by exact only; its polygons with -o json"},
    [OPT_INERTIA] = {"--inertia", NULL, "also the inertia of the intersection, by exact only"},
    [OPT_HALF_SPACE] = {"--half-space", "NX,NY,NZ,OFFSET",
                        "in place of B: all points p with n . p <= OFFSET, n the normal NX,NY,NZ scaled to length 1"},
    [OPT_NO_PATCHES] = {"--no-patches", NULL, "one contact for each pair of bodies"},
    [OPT_REPAIR] =
        {"--repair", NULL,
         "close small holes, make directions consistent and outward, drop duplicates, weld; tells what it did"},
    [OPT_MAX_HOLE] = {"--max-hole", "M",
                      "--repair fills holes up to this wide, in m; default: a tenth of the diagonal"},
    [OPT_WELD] = {"--weld", "M",
                  "--repair welds open edges' vertices within this, in m; default: 1e-4 of the diagonal"},
    [OPT_SCALE] = {"--scale", "M", "what a 1 in the file is, in m: 0.001 for a file in mm"},
    [OPT_UNIT] = {"--unit", "m|dm|cm|mm|um|in|ft", "what the file is in; in place of --scale"},
    [OPT_OPEN_DIRECTION] = {"--open-direction", "\"X Y Z\"",
                            "the mesh is an open surface that bounds the volume behind it, along this"},
    [OPT_CLOSING] = {"--closing", "hull|wrap",
                     "the mesh is the convex hull of its surface's vertices, or a closed surface around its triangles, "
                     "whatever these do"},
    [OPT_WRAP_RESOLUTION] = {"--wrap-resolution", "M", "of --closing wrap, in m; default: a hundredth of the diagonal"},
    [OPT_NAME] = {"--name", "NAME", "of the mesh; default: the file's"},
    [OPT_DAYS] = {"--days", "N", "that the certificate holds; default: 365"},
    [OPT_ROLE] = {"--role", "simulator|operator|admin", "what the principal may do; default: simulator"},
    [OPT_SECONDS] = {"--seconds", "S", "how long to measure; default: 2"},
    [OPT_WIDTH] = {"--width", "PIXELS", "of the picture; default: 960"},
    [OPT_HEIGHT] = {"--height", "PIXELS", "of the picture; default: 720"},
    [OPT_CONTACT] = {"--contact", "\"BODY BODY\"", "show these two bodies alone, and where they touch"},
    [OPT_SHOW] = {"--show", "WHAT",
                  "some of bodies,samples,axes,contacts,gradients,rays,rays_x,rays_y,rays_z,nodes,normals,surface; "
                  "default: the first three"},
    [OPT_AZIMUTH] = {"--azimuth", "DEGREES", "about up, from where the camera looks; default: -60"},
    [OPT_ELEVATION] = {"--elevation", "DEGREES", "above the plane across up; default: 20"},
    [OPT_UP] = {"--up", "\"X Y Z\"", "what is up in the picture; default: 0 0 1"},
    [OPT_EYE] = {"--eye", "\"X Y Z\"", "where the camera is, in m, instead of azimuth, elevation and zoom"},
    [OPT_TARGET] = {"--target", "\"X Y Z\"", "where it looks, in m; default: the middle of what is shown"},
    [OPT_ZOOM] = {"--zoom", "FACTOR", "default: 1, all that is shown fits"},
    [OPT_FIELD_OF_VIEW] = {"--field-of-view", "DEGREES", "from the lower to the upper edge; default: 30"},
    [OPT_OPACITY] = {"--opacity", "0..1", "of bodies seen face on; default: 0.3"},
    [OPT_BACKGROUND] = {"--background", "RRGGBB[AA]", "hexadecimal; default: ffffff"},
    [OPT_SELF] = {"--self", NULL, "also where a body overlaps itself; B may then be left out"},
    [OPT_ONCE] = {"--once", NULL, "one view and no more"},
    [OPT_INTERVAL] = {"--interval", "SECONDS", "between views, and what rates are taken over; default: 1"},
    [OPT_SORT] = {"--sort", "volume|depth|id",
                  "the largest volume or depth first, or the least id; default: as the step has them"},
    [OPT_BODY] = {"--body", "ID", "contacts of this body alone"},
    [OPT_WATCH] = {"--watch", NULL, "again and again, until Ctrl-C"},
    [OPT_LISTEN] = {"--listen", "ADDRESS", "where simulators connect to; default: tcp://127.0.0.1:*, a free port"},
    [OPT_ANY_BUILD] = {"--any-build", NULL, "compare also with a server of another build than the recorded one"},
    [OPT_LIMIT] = {"--limit", "M", "the deepest that is allowed, in m: beyond it the exit code is 7"},
    [OPT_IGNORE] = {"--ignore", "\"A,B C,D\"",
                    "pairs of bodies that are not looked at, such as parts that are pressed together"},
    [OPT_SPIN] = {"--spin-us", "N",
                  "microseconds to look for an answer before sleeping; 0: sleep at once; default: 2000"},
#include "client_c/ctl/setting_options.inc"
};

const char *ctl_option_name(ctl_option option) {
    return ctl_options[option].name;
}
