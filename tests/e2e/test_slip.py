"""Slip and viscous friction from velocities, over the stream, HTTP and the C client: a block of known area on a floor."""

from __future__ import annotations

import json
import os
import re
import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, CC, CONTACTCTL, SLOW
from contactd import errors
from geometry import box, icosphere, moved
from http_api import Api, off
from test_client_c import pkg_config

FLOOR = box((-2, -2, -1), (2, 2, 0))
BLOCK = box((-0.25, -0.375, -0.0625), (0.25, 0.375, 0.5))
AREA, NU = 0.5 * 0.75, 8.0
TWIST = [2.0, -1.0, -3.0, 0, 0, 0.5]

C = r"""
#include <contactd.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
static void ask(contactd_client *client, contactd_code code) {
    if (code) printf("%s %s\n", contactd_code_name(code), contactd_last_error(client)->field);
}
int main(int argc, char **argv) {
    contactd_options options;
    contactd_options_init(&options);
    options.server = argv[argc - 1];
    options.timeout_ms = 120000;
    contactd_client *client;
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) return 1;
    float p[8][3];
    static const uint32_t t[12][3] = {{0,3,1},{0,2,3},{4,5,7},{4,7,6},{0,1,5},{0,5,4},{2,7,3},{2,6,7},{0,4,6},{0,6,2},{1,3,7},{1,7,5}};
    const float lo[2][3] = {{-2, -2, -1}, {-0.25f, -0.375f, -0.0625f}}, hi[2][3] = {{2, 2, 0}, {0.25f, 0.375f, 0.5f}};
    contactd_scene scene;
    contactd_body bodies[2];
    ask(client, contactd_open_scene(client, "c", NULL, &scene));
    for (int b = 0; b < 2; b++) {
        contactd_mesh mesh;
        contactd_body_options how;
        contactd_body_options_init(&how);
        how.rigid = b == 1;
        for (int v = 0; v < 8; v++)
            for (int i = 0; i < 3; i++) p[v][i] = (v >> i & 1 ? hi : lo)[b][i];
        ask(client, contactd_register_mesh(client, "", p[0], 8, t[0], 12, &mesh));
        ask(client, contactd_add_body(client, scene, mesh, &how, &bodies[b]));
    }
    double still[8][3];
    memset(still, 0, sizeof still);
    contactd_velocity velocities[2] = {{.body = bodies[0], .values = still[0]}, {.body = bodies[1], .twist = {2, -1, -3, 0, 0, 0.5}}};
    contactd_step_options step;
    contactd_step_options_init(&step);
    step.want = 0;
    step.velocities = velocities;
    step.n_velocities = 2;
    step.viscosity = 8;
    const contactd_result *r;
    ask(client, contactd_step(client, scene, NULL, 0, &step, &r));
    const contactd_contact *c = r->contacts;
    printf("%d %d %.9f %.9f %.9f %.9f\n", r->has_slip, (int)r->n_contacts, c->relative_velocity[0], c->relative_velocity[1],
           c->relative_velocity[2], c->spin * c->normal[2]);
    for (int b = 0; b < 2; b++) {
        double sum[3] = {0, 0, 0};
        for (uint64_t k = 0; k < c->sparse[b].n; k++)
            for (int i = 0; i < 3; i++) sum[i] += c->sparse[b].friction[3 * k + i];
        printf("%.9f %.9f %.9f %.9f %.9f\n", c->friction[b][0], c->friction[b][1], sum[0], sum[1], c->friction[b][5]);
    }
    printf("%.9f %.9f\n", c->side_center[1][2], contactd_target_volume(c, 0.01));
    ask(client, contactd_set_continuous_frames(client, 9, true));
    ask(client, contactd_set_continuous_frames(client, scene, true));
    for (int k = 0; k < 40; k++) {
        double pose[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
        pose[7] = 2.3 * sin(k / 5.0);
        pose[11] = -0.5 + 0.8 * cos(k / 5.0);
        contactd_update update = contactd_move(bodies[1], pose);
        ask(client, contactd_step(client, scene, &update, 1, NULL, &r));
        for (uint32_t i = 0; i < r->n_contacts; i++) printf("tangent %d %.12f %.12f %.12f\n", k, r->contacts[i].tangents[0][0], r->contacts[i].tangents[0][1], r->contacts[i].tangents[0][2]);
    }
    velocities[0].values = NULL;
    ask(client, contactd_step(client, scene, NULL, 0, &step, &r));
    step.n_velocities = 0;
    ask(client, contactd_step(client, scene, NULL, 0, &step, &r));
    contactd_close(&client);
    return 0;
}
"""


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.fixture(params=["exact", "ldi"])
def sliding(request, client):
    settings = {"pixel_size": 1 / 64} if request.param == "ldi" else {}
    scene = client.open_scene(method=request.param, **settings)
    floor, block = client.register_mesh(*FLOOR), client.register_mesh(*BLOCK)
    return scene, scene.add_body(floor), scene.add_body(block, pose=np.eye(4))


def test_block_on_a_floor(sliding):
    scene, floor, block = sliding
    (contact,) = scene.step(velocities={block: TWIST}, viscosity=NU, want="volume").contacts
    assert contact.area == pytest.approx(AREA, rel=1e-6)
    assert contact.relative_velocity == pytest.approx(TWIST[:3], abs=1e-6)
    assert contact.spin * contact.normal[2] == pytest.approx(0.5, abs=1e-6)
    assert contact.friction(block)[:3] == pytest.approx([-NU * AREA * 2, NU * AREA, 0], abs=1e-5)
    assert contact.friction(block)[5] == pytest.approx(-NU * AREA**2 / (2 * np.pi) * 0.5, abs=1e-5)
    for body in (floor, block):
        assert contact.friction_forces(body).shape == (len(contact.vertices(body)), 3)
        assert contact.friction_forces(body).sum(0) == pytest.approx(contact.friction(body)[:3], abs=1e-12)
    assert contact.friction(block)[:3] == pytest.approx(-contact.friction(floor)[:3], abs=1e-12)
    assert contact.side_centers == pytest.approx(np.array([[0, 0, 0], [0, 0, -0.0625]]), abs=1e-6)
    assert contact.target_volume(0.01) == pytest.approx(0.01 * AREA)
    # The floor moves along, given by its vertices: no slip, and no friction.
    common = np.tile([2.0, -1.0, 5.0], (8, 1))
    (contact,) = scene.submit(velocities={block: [2, -1, 5, 0, 0, 0], floor: common}, viscosity=NU).result().contacts
    assert contact.relative_velocity == pytest.approx(np.zeros(3), abs=1e-9)
    assert contact.friction(block) == pytest.approx(np.zeros(6), abs=1e-9)
    (contact,) = scene.step(velocities={floor: common.astype(np.float32)}).contacts
    assert contact.relative_velocity == pytest.approx([-2, 1, -5], abs=1e-6)
    with pytest.raises(errors.InvalidArgumentError, match="viscosity"):
        contact.friction_forces(block)
    with pytest.raises(errors.InvalidArgumentError, match="velocities"):
        scene.step().contacts[0].relative_velocity


def test_cells_have_slip_of_their_own(client):
    """A long patch that slides and turns: the more cells, the closer is the sum of their friction to the integral over it."""
    torques = []
    for cells in (0.25, 0.125):
        scene = client.open_scene(pixel_size=1 / 64, cell_size=cells)
        scene.add_body(client.register_mesh(*FLOOR), pose=np.eye(4))
        plank = client.register_mesh(*box((-0.5, -0.125, -0.0625), (0.5, 0.125, 0.5)))
        block = scene.add_body(plank, pose=np.eye(4))
        (contact,) = scene.step(velocities={block: [1, 0, 0, 0, 0, 2]}, viscosity=NU).contacts
        assert len(contact.cells) > 3
        friction = sum(cell.friction(block) for cell in contact.cells)
        assert friction[:2] == pytest.approx([-NU * contact.area, 0], abs=1e-5)
        for cell in contact.cells:
            assert cell.friction_forces(block).sum(0) == pytest.approx(cell.friction(block)[:3], abs=1e-12)
            assert cell.relative_velocity[:2] == pytest.approx(
                np.array([1, 0]) + 2 * np.array([-cell.side_centers[1, 1], cell.side_centers[1, 0]]), abs=1e-6)
        torques.append(friction[5])
    assert torques[1] == pytest.approx(-NU * 0.25 * (1 + 1 / 16) / 12 * 2, rel=0.02)
    assert abs(contact.friction(block)[5]) < 0.5 * abs(torques[1])


def test_a_sliding_block_comes_to_rest(client):
    """m dv/dt = -nu A v: explicit steps against the exponential."""
    scene = client.open_scene()
    scene.add_half_space([0, 0, 1])
    block = scene.add_body(client.register_mesh(*BLOCK), pose=np.eye(4))
    mass, dt, x, v = 3.0, 0.01, 0.0, 1.5
    for _ in range(100):
        (contact,) = scene.step(poses={block: moved(x)}, velocities={block: [v, 0, 0, 0, 0, 0]}, viscosity=NU).contacts
        v += dt * contact.friction(block)[0] / mass
        x += dt * v
    assert v == pytest.approx(1.5 * (1 - NU * AREA * dt / mass) ** 100, rel=1e-6)
    assert v == pytest.approx(1.5 * np.exp(-NU * AREA / mass), rel=0.01)


@pytest.mark.parametrize("restart", [False, True])
def test_frames_are_continuous_in_time(make_server, restart):
    """The normal turns through the direction at which the tangents of normals alone jump, and over a pole of the carried
    ones; and comes back."""
    server = make_server()
    jumps = {}
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        for carried in (False, True):
            scene = client.open_scene()
            scene.continuous_frames = carried
            assert scene.continuous_frames is carried
            ball = scene.add_body(client.register_mesh(*icosphere(1, 3)), pose=np.eye(4))
            other = scene.add_body(client.register_mesh(*icosphere(1, 2)), pose=np.eye(4))
            last, jumps[carried] = None, 0.0
            pole, across = np.array([0.36, 0.48, 0.8]), np.array([0.8, -0.6, 0.0])
            axis = np.cross(pole, across) + 0.02 * pole  # by the pole, not through it
            axis /= np.linalg.norm(axis)
            start = np.cross(axis, pole) / np.linalg.norm(np.cross(axis, pole))
            for k in range(101):
                angle = 2 * np.pi * k / 100
                at = np.eye(4)
                at[:3, 3] = 1.5 * (np.cos(angle) * start + np.sin(angle) * np.cross(axis, start))
                (contact,) = scene.step(poses={other: at}, want="frame").contacts
                n, (t, u) = contact.normal, contact.tangents
                assert np.stack([n, t, u]) @ np.stack([n, t, u]).T == pytest.approx(np.eye(3), abs=1e-12)
                assert np.cross(n, t) == pytest.approx(u, abs=1e-12)
                if last is not None:
                    jumps[carried] = max(jumps[carried], np.abs(t - last).max())
                last = t
                if restart and k == 50:
                    server.restart(hard=True)
                if k == 60:
                    scene.step(want="volume")
    assert jumps[False] > 0.7 and jumps[True] < 0.15


def test_refused(client):
    scene = client.open_scene()
    soft = scene.add_body(client.register_mesh(*icosphere(1, 1)))
    hard = scene.add_body(client.register_mesh(*BLOCK), pose=np.eye(4))
    for bad, error in (({soft: np.zeros((41, 3))}, errors.WrongLengthError), ({hard: np.zeros(5)}, errors.WrongLengthError),
                       ({soft: np.full((42, 3), np.nan)}, errors.NonFiniteError),
                       ({hard: [0, 0, 0, 0, np.inf, 0]}, errors.NonFiniteError),
                       ({hard: [1e31, 0, 0, 0, 0, 0]}, errors.OutOfRangeError)):
        with pytest.raises(error, match="velocit"):
            scene.step(velocities=bad)
    for bad, error, message in (
            ({soft: np.zeros((41, 3))}, errors.WrongLengthError, f"{soft}, velocities: expected 42 velocities, one for each vertex, got 41"),
            ({soft: TWIST}, errors.WrongLengthError,
             f"{soft}, velocities: expected velocities of shape (42, 3), one for each vertex of a deformable body, got a twist"),
            ({hard: np.zeros((8, 3))}, errors.WrongLengthError,
             f"{hard}, velocities: expected a twist of 6 numbers, as the body is rigid, got shape (8, 3)"),
            ({hard: [1, 2]}, errors.WrongLengthError,
             f"{hard}, velocities: expected a twist of 6 numbers, as the body is rigid, got [1, 2]"),
            ({hard: "abc"}, errors.InvalidArgumentError, f"{hard}, velocities: expected float32 or float64 numbers"),
            ({soft: "abc"}, errors.InvalidArgumentError, f"{soft}, velocities: expected float32 or float64 numbers"),
            ({soft: [[1, 2], [3]]}, errors.WrongLengthError, f"{soft}, velocities: "),
            ([TWIST], errors.InvalidArgumentError, "velocities: expected a dictionary with bodies as keys, or (bodies, array), got list")):
        with pytest.raises(error, match=re.escape(message)) as refused:
            scene.step(velocities=bad)
        assert len(str(refused.value)) < 250
    for bad, message in (({soft: np.zeros((41, 3))}, f"{soft}, directions: expected 42 displacements"),
                         (5, "directions: expected a dictionary with bodies as keys, got int")):
        with pytest.raises(errors.ContactdError, match=re.escape(message)):
            scene.step(directions=bad)
    with pytest.raises(errors.OutOfRangeError, match="viscosity"):
        scene.step(velocities={hard: np.zeros(6)}, viscosity=-1)
    with pytest.raises(errors.InvalidArgumentError, match="velocity"):
        scene.step(viscosity=1)
    assert scene.step().contacts


def test_http(server):
    api = Api(server.http)
    scene = api.scene()
    (floor, block) = (api.box((4, 4, 1), (0, 0, -0.5)), api.box((0.5, 0.75, 0.5), (0, 0, 0.1875)))
    a = api.post(f"{scene}/bodies", {"mesh": floor["id"]})["id"]
    b = api.post(f"{scene}/bodies", {"mesh": block["id"], "kind": "rigid"})["id"]
    step = {"velocities": [{"body": a, "values": [[0, 0, 0]] * 8}, {"body": b, "twist": TWIST}], "viscosity": NU}
    (contact,) = api.post(f"{scene}/step", step, status=200)["contacts"]
    assert contact["relative_velocity"] == pytest.approx(TWIST[:3], abs=1e-6)
    assert contact["friction"][1][:3] == pytest.approx([-NU * AREA * 2, NU * AREA, 0], abs=1e-5)
    forces = np.array(contact["sparse"][1]["friction_forces"])
    assert forces.sum(0) == pytest.approx(contact["friction"][1][:3], abs=1e-9)
    assert contact["side_centers"][1] == pytest.approx([0, 0, -0.0625], abs=1e-6)
    (contact,) = api.post(f"{scene}/step", {}, status=200)["contacts"]
    assert "relative_velocity" not in contact
    for bad, field in (({"velocities": 3}, "velocities"), ({"velocities": [{"body": b}]}, "velocities[0]"),
                       ({"velocities": [{"body": b, "twist": [1]}]}, "velocities[0]"),
                       ({"velocities": [{"body": a, "values": [[0, 0, 0]]}]}, "velocities"),
                       ({"velocities": [{"body": b, "twist": TWIST, "index": 1}]}, "velocities[0].index"),
                       ({"viscosity": 1}, "velocities"), ({"viscosity": -1}, "viscosity")):
        answer = api("POST", f"{scene}/step", bad)
        assert answer.status in (400, 422) and answer.json["field"] == field, (bad, answer.json)
    for field, values in (("velocities", "a velocity"), ("directions", "a displacement")):
        problem = api.refused("POST", f"{scene}/step", 400, "INVALID_ARGUMENT", {field: [{"body": a, "twist": TWIST}]}, field=field)
        assert f"body {a} is deformable" in problem["detail"] and f"values, {values} for each of its 8 vertices" in problem["detail"]


def test_c(server, binaries, tmp_path):
    (tmp_path / "slip.c").write_text(C)
    subprocess.run([*CC, "-std=c17", "-Wall", "-Wextra", "-Werror", str(tmp_path / "slip.c"),
                    *pkg_config(binaries), "-lm", "-o", str(tmp_path / "slip")], check=True)
    done = subprocess.run([str(tmp_path / "slip"), server.stream], capture_output=True, text=True, timeout=60 * SLOW,
                          check=True, env=os.environ | {"LD_LIBRARY_PATH": str(BUILD)})
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("tangent")]
    assert [float(x) for x in lines[0]] == pytest.approx([1, 1, 2, -1, -3, 0.5], abs=1e-6)
    for line, sign in ((lines[1], 1), (lines[2], -1)):
        force = [sign * NU * AREA * 2, -sign * NU * AREA]
        assert [float(x) for x in line[:4]] == pytest.approx(force + force, abs=1e-5)
    assert [float(x) for x in lines[3]] == pytest.approx([-0.0625, 0.01 * AREA], abs=1e-6)
    assert lines[4:] == [["NOT_FOUND", "scene"], ["INVALID_ARGUMENT", "velocities"], ["INVALID_ARGUMENT", "velocities"]]
    tangents = []
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        scene = client.open_scene()
        scene.continuous_frames = True
        scene.add_body(client.register_mesh(*FLOOR), kind="deformable")
        block = scene.add_body(client.register_mesh(*BLOCK), pose=np.eye(4))
        for k in range(40):
            pose = moved(0, 2.3 * np.sin(k / 5), -0.5 + 0.8 * np.cos(k / 5))
            tangents += [[k, *c.tangents[0]] for c in scene.step(poses={block: pose}).contacts]
    found = [[float(x) for x in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("tangent")]
    assert len(found) > 20 and np.array(found) == pytest.approx(np.array(tangents), abs=1e-9)


def test_contactctl(server, tmp_path):
    files = []
    for name, shape in (("floor", FLOOR), ("block", BLOCK)):
        files.append(tmp_path / f"{name}.off")
        files[-1].write_bytes(off(*(np.asarray(part).tolist() for part in shape)))
    twist = " ".join(map(str, TWIST))

    def run(*options, bodies=files):
        return subprocess.run([*CONTACTCTL, "contact", *bodies, *options],
                              env=os.environ | {"CONTACTD_SERVER": server.stream}, capture_output=True, text=True,
                              timeout=60 * SLOW)

    (contact,) = json.loads(run("--twist-b", twist, "--viscosity", str(NU), "-o", "json").stdout)["contacts"]
    np.testing.assert_allclose(contact["relative_velocity"], TWIST[:3], atol=1e-6)
    assert contact["spin"] * contact["normal"][2] == pytest.approx(TWIST[5], abs=1e-4)
    np.testing.assert_allclose(contact["friction"][1][:2], [-NU * AREA * v for v in TWIST[:2]], rtol=1e-4)
    np.testing.assert_allclose(np.add(*contact["friction"])[:3], 0, atol=1e-9)
    # The floor moves instead, as a mesh and as a half-space: the block slides back on it.
    back = " ".join(str(-v) for v in TWIST)
    plane = ("--half-space", "0,0,1,0", "--pose-a", "1 0 0 0 0 1 0 0 0 0 1 0")
    for options, bodies in ((("--twist-a", back), files), (("--twist-b", back, *plane), files[1:])):
        (moved_floor,) = json.loads(run(*options, "-o", "json", bodies=bodies).stdout)["contacts"]
        sign = 1 if bodies is files else -1
        np.testing.assert_allclose(moved_floor["relative_velocity"], [sign * v for v in TWIST[:3]], atol=1e-6)
        assert np.all(np.array(moved_floor["friction"]) == 0)  # no viscosity
    assert "relative_velocity" not in json.loads(run("-o", "json").stdout)["contacts"][0]
    text = run("--twist-b", twist, "--viscosity", str(NU)).stdout
    assert "slip       2 -1 -3 m/s" in text and "friction   body 2: force -6 3 " in text
    for options, word in ((("--viscosity", "1"), "nothing moves"), (("--twist-a", "1 2 3"), "6 numbers"),
                          (("--twist-a", twist, "--viscosity", "-1"), "expected a number >= 0"),
                          (("--twist-b", "0 0 0 0 0 inf"), '--twist-b is "0 0 0 0 0 inf", expected 6 numbers: a velocity in m/s, '
                           "then an angular velocity in rad/s; number 6 is inf, which is not finite")):
        refused = run(*options)
        assert refused.returncode == 2 and word in refused.stderr
