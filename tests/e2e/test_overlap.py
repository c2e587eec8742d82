"""The intersection of two meshes in one call, by both clients and over HTTP."""

from __future__ import annotations

import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, CC, SLOW
from contactd import errors
from geometry import box, icosphere, moved
from http_api import Api
from test_client_c import pkg_config

CUBE = box((0, 0, 0), (1, 1, 1))
AT = (0.5, 0.25, 0.0)
VOLUME, CENTER = 0.5 * 0.75, (0.75, 0.625, 0.5)
GRADIENT = (-0.75, -0.5, 0)  # dV/d(translation of b); along z the faces coincide

C = r"""
#include <contactd.h>
#include <stdio.h>
#include <stdlib.h>
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
    for (int v = 0; v < 8; v++)
        for (int i = 0; i < 3; i++) p[v][i] = v >> i & 1;
    contactd_mesh mesh;
    contactd_overlap found;
    contactd_settings settings;
    contactd_settings_init(&settings);
    contactd_register_mesh(client, "", p[0], 8, t[0], 12, &mesh);
    double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.25, 0, 0, 1, 0};
    for (int k = 0; k < 3; k++) {
        if (k == 1) settings.resolution[0] = settings.resolution[1] = settings.resolution[2] = 16;
        if (k == 2) pose[3] = 3;
        contactd_code code = contactd_find_overlap(client, mesh, NULL, mesh, pose, &settings, &found);
        printf("%d %s %.9f %.9f %.9f %.9f %.9f %.9f\n", code, found.method, found.volume, found.center[0], found.center[1],
               found.generalized_gradient[1][0], found.generalized_gradient[1][1], found.area);
    }
    pose[0] = 2;
    contactd_code code = contactd_find_overlap(client, mesh, NULL, mesh, pose, NULL, &found);
    printf("%s %s\n", contactd_code_name(code), contactd_last_error(client)->field);
    contactd_scene scene;
    contactd_open_scene(client, "", NULL, &scene);
    printf("%u\n", scene);
    const contactd_scene_info *scenes;
    size_t n;
    contactd_list_scenes(client, &scenes, &n);
    printf("%zu\n", n);
    contactd_close(&client);
    return 0;
}
"""


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def test_python(client):
    cube = client.register_mesh(*CUBE)
    for settings, method in (({}, "exact"), ({"resolution": 16}, "ldi"), ({"method": "exact"}, "exact")):
        found = client.overlap(cube, cube, pose_b=moved(*AT), **settings)
        assert found.method == method and found.volume == pytest.approx(VOLUME, rel=1e-9)
        assert found.center == pytest.approx(CENTER) or method == "ldi"
        assert found.generalized_gradient[1, :2] == pytest.approx(GRADIENT[:2], rel=1e-6)
        assert found.generalized_gradient[0, :3] == pytest.approx(-found.generalized_gradient[1, :3], abs=1e-12)
        assert (found.error_bound is None) == (method == "ldi")
    apart = client.overlap(cube, cube, moved(-3), moved(3))
    assert apart.volume == 0 and apart.center is None and not apart.generalized_gradient.any()
    ball = client.register_mesh(*icosphere(0.25, 3))
    inside = client.overlap(cube, ball, pose_b=moved(0.5, 0.5, 0.5))
    assert inside.volume == pytest.approx(ball.volume, rel=1e-6) and inside.center == pytest.approx([0.5] * 3, abs=1e-6)
    with pytest.raises(errors.OutOfRangeError, match="pose"):
        client.overlap(cube, cube, 2 * np.eye(4)[:3])
    with pytest.raises(errors.InvalidArgumentError):
        client.overlap(cube, cube, method="exact", resolution=8)
    with pytest.raises(errors.InvalidArgumentError, match="Mesh"):
        client.overlap(cube, "cube")
    assert not client.scenes()


def test_http(server):
    api = Api(server.http)
    cube = api.box((1, 1, 1), (0.5, 0.5, 0.5))
    pose = [1, 0, 0, AT[0], 0, 1, 0, AT[1], 0, 0, 1, AT[2]]
    scenes = len(api.get("/v1/scenes")["scenes"])
    found = api.post("/v1/overlap", {"a": {"mesh": cube["id"]}, "b": {"mesh": cube["hash"], "pose": pose}}, status=200)
    (contact,) = found["contacts"]
    assert found["method"] == "exact" and contact["bodies"] == [1, 2]
    assert contact["volume"] == pytest.approx(VOLUME) and contact["center"] == pytest.approx(CENTER)
    assert contact["generalized_gradient"][1][:3] == pytest.approx(GRADIENT, abs=1e-6)
    pose[3] = 5
    query = {"a": {"mesh": cube["id"]}, "b": {"mesh": cube["id"], "pose": pose}, "resolution": 8}
    assert api.post("/v1/overlap", query, status=200)["contacts"] == []
    api.refused("POST", "/v1/overlap", 404, "NOT_FOUND", {"a": {"mesh": cube["id"]}, "b": {"mesh": 10**6}})
    for bad, field in (({"a": {"mesh": cube["id"]}}, "b"), ({"a": 3, "b": 4}, "a"),
                       ({"a": {"mesh": cube["id"], "kind": "rigid"}, "b": {}}, "a.kind"),
                       (query | {"method": "exact"}, "resolution"), (query | {"want": []}, "want"),
                       (query | {"method": "ebpi"}, "method"),
                       ({"a": {"mesh": cube["id"], "pose": [2] * 12}, "b": {"mesh": cube["id"]}}, "pose")):
        answer = api("POST", "/v1/overlap", bad)
        assert answer.status in (400, 422) and answer.json["field"] == field, (bad, answer.json)
    assert len(api.get("/v1/scenes")["scenes"]) == scenes


def test_c(server, binaries, tmp_path):
    (tmp_path / "overlap.c").write_text(C)
    subprocess.run([*CC, "-std=c17", "-Wall", "-Wextra", "-Werror", str(tmp_path / "overlap.c"),
                    *pkg_config(binaries), "-o", str(tmp_path / "overlap")], check=True)
    done = subprocess.run([str(tmp_path / "overlap"), server.stream], capture_output=True, text=True, timeout=60 * SLOW,
                          check=True, env=os.environ | {"LD_LIBRARY_PATH": str(BUILD)})
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[1] for line in lines[:3]] == ["exact", "ldi", "ldi"] and [line[0] for line in lines[:3]] == ["0"] * 3
    for line in lines[:2]:
        assert float(line[2]) == pytest.approx(VOLUME) and [float(x) for x in line[5:7]] == pytest.approx(GRADIENT[:2])
    assert [float(x) for x in lines[0][3:5]] == pytest.approx(CENTER[:2])
    assert [float(x) for x in lines[2][2:]] == [0] * 6
    assert lines[3:] == [["OUT_OF_RANGE", "pose"], ["1"], ["1"]]
