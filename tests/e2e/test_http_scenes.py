"""/v1/scenes over HTTP: settings, bodies, steps and statistics, and each refusal by the name of its field."""

from __future__ import annotations

import json
import math

import pytest
from http_api import Api, box, obj, torus

IDENTITY = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]


@pytest.fixture
def api(server) -> Api:
    return Api(server.http)


def at(x=0.0, y=0.0, z=0.0):
    return [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z]


@pytest.fixture
def pair(api):
    """A scene of two unit boxes that overlap by a quarter along x: the scene's path and the bodies."""
    mesh = api.box()
    scene = api.scene(resolution=32)
    a = api.post(f"{scene}/bodies", {"mesh": mesh["hash"]})
    b = api.post(f"{scene}/bodies", {"mesh": mesh["id"], "kind": "rigid", "pose": at(0.75)})
    yield scene, a, b
    api("DELETE", scene)


# ---- scenes ----


def test_a_scene_from_open_to_close(api):
    answer = api("POST", "/v1/scenes", {"name": "drop", "resolution": [8, 16, 32], "stiffness": 2.5})
    assert answer.status == 201
    scene = answer.json
    path = answer.headers["Location"]
    assert path == f"/v1/scenes/{scene['id']}"
    assert scene["name"] == "drop" and scene["resolution"] == [8, 16, 32] and scene["stiffness"] == 2.5
    assert (scene["method"], scene["pixel_size"], scene["bodies"], scene["steps"]) == ("ldi", 0, 0, 0)
    assert scene["running_method"] == "ldi"
    assert api.get(path) == scene
    assert scene["id"] in [s["id"] for s in api.get("/v1/scenes")["scenes"]]
    assert api("HEAD", path).status == 200
    assert api("DELETE", path).status == 204
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"resolution": 4})):
        api.refused(method, path, 404, "STALE_HANDLE", body)
    for below in ("bodies", "stats"):
        api.refused("GET", f"{path}/{below}", 404, "STALE_HANDLE")
    api.refused("POST", f"{path}/step", 404, "STALE_HANDLE", {})
    api.refused("POST", f"{path}/bodies", 404, "STALE_HANDLE", {"mesh": api.box()["id"]})
    assert scene["id"] not in [s["id"] for s in api.get("/v1/scenes")["scenes"]]


def test_defaults(api):
    scene = api.post("/v1/scenes", {})
    assert (scene["name"], scene["method"], scene["resolution"], scene["stiffness"]) == ("", "auto", None, 1)
    assert scene["running_method"] == api.get("/v1/status")["auto_method"]


@pytest.mark.parametrize("number", ["0", "-1", "1e3", "x", "%20", "4503599627370000", "9" * 30])
def test_scenes_that_never_were(api, number):
    for method, below, body in [("GET", "", None), ("DELETE", "", None), ("PATCH", "", {}), ("GET", "/stats", None),
                                ("GET", "/bodies", None), ("POST", "/bodies", {"mesh": 1}), ("POST", "/step", {}),
                                ("GET", "/bodies/1", None), ("DELETE", "/bodies/1", None)]:
        api.refused(method, f"/v1/scenes/{number}{below}", 404, "NOT_FOUND", body)


WRONG_SETTINGS = [
    ({"resolution": 0}, 422, "OUT_OF_RANGE", "resolution"),
    ({"resolution": -3}, 422, "OUT_OF_RANGE", "resolution"),
    ({"resolution": 1_000_000}, 422, "OUT_OF_RANGE", "resolution"),
    ({"resolution": [64, 64, 4097]}, 422, "OUT_OF_RANGE", "resolution[2]"),
    ({"resolution": [64, 64]}, 422, "WRONG_LENGTH", "resolution"),
    ({"resolution": 64.5}, 400, "INVALID_ARGUMENT", "resolution"),
    ({"resolution": "64"}, 400, "INVALID_ARGUMENT", "resolution"),
    ({"resolution": None}, 400, "INVALID_ARGUMENT", "resolution"),
    ({"pixel_size": -0.1}, 422, "OUT_OF_RANGE", "pixel_size"),
    ({"stiffness": -1}, 422, "OUT_OF_RANGE", "stiffness"),
    ({"stiffness": [1]}, 400, "INVALID_ARGUMENT", "stiffness"),
    ({"cell_size": -1}, 422, "OUT_OF_RANGE", "cell_size"),
    ({"cell_size": "1"}, 400, "INVALID_ARGUMENT", "cell_size"),
    ({"cell_size": 1, "method": "exact"}, 400, "INVALID_ARGUMENT", "cell_size"),
    ({"patches": 1}, 400, "INVALID_ARGUMENT", "patches"),
    ({"patches": True, "resolution": 8}, 400, "INVALID_ARGUMENT", "patches"),
    ({"patches": True, "method": "ldi"}, 400, "INVALID_ARGUMENT", "patches"),
    ({"method": "fem"}, 400, "INVALID_ARGUMENT", "method"),
    ({"method": 1}, 400, "INVALID_ARGUMENT", "method"),
    ({"resolutoin": 64}, 400, "INVALID_ARGUMENT", "resolutoin"),
    ('{"stiffness": 1e999}', 422, "OUT_OF_RANGE", "stiffness"),
    ('{"stiffness": 1, "stiffness": 2}', 400, "MALFORMED", None),
    ('{"stiffness": NaN}', 400, "MALFORMED", "stiffness"),
    ("[]", 400, "MALFORMED", None),
    ("", 400, "MALFORMED", None),
    ("null", 400, "MALFORMED", None),
]


@pytest.mark.parametrize("body, status, code, field", WRONG_SETTINGS, ids=lambda v: str(v))
def test_settings_that_are_wrong(api, body, status, code, field):
    text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    before = api.get("/v1/status")["scenes"]
    api.refused("POST", "/v1/scenes", status, code, text, headers, field)
    assert api.get("/v1/status")["scenes"] == before
    scene = api.scene(resolution=7)
    api.refused("PATCH", scene, status, code, text, headers, field)
    assert api.get(scene)["resolution"] == [7, 7, 7]


@pytest.mark.parametrize("field, expected", [
    ("cell_size", "1e-30 to 1e+30, or 0 for none"), ("pixel_size", "1e-30 to 1e+30, or 0 for none"), ("margin", "0 to 1e+30"),
    ("stiffness", "0 to 1e+300")])
def test_messages_name_the_range_that_is_taken(api, field, expected):
    scene = api.scene()
    for wrong in (-1, 1e301):
        problem = api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {field: wrong}, field=field)
        assert f"{field} is {wrong:g}" in problem["detail"] and problem["detail"].endswith(f"expected {expected}")
        problem = api.refused("PATCH", scene, 422, "OUT_OF_RANGE", {field: wrong}, field=field)
        assert problem["detail"].endswith(f"expected {expected}")
    for right in (0, 1e-30, 1e30):
        assert api.post("/v1/scenes", {field: right})[field] == right


def test_names_of_scenes(api):
    assert api.post("/v1/scenes", {"name": "ü" * 31})["name"] == "ü" * 31
    api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {"name": "ü" * 32}, field="name")
    api.refused("POST", "/v1/scenes", 400, "INVALID_ARGUMENT", {"name": "a\nb"}, field="name")
    api.refused("PATCH", api.scene(), 400, "INVALID_ARGUMENT", {"name": "x"}, field="name")


# ---- bodies ----


def test_bodies(api):
    mesh = api.box((2, 2, 2))
    scene = api.scene()
    answer = api("POST", f"{scene}/bodies", {"mesh": mesh["hash"][:8]})
    assert answer.status == 201
    a = answer.json
    assert answer.headers["Location"] == f"{scene}/bodies/{a['id']}"
    assert (a["kind"], a["mesh"], a["mesh_hash"], a["vertices"]) == ("deformable", mesh["id"], mesh["hash"], 8)
    assert (a["lo"], a["hi"]) == ([-1] * 3, [1] * 3) and "pose" not in a
    b = api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": [at(5)[0:4], at(5)[4:8], at(5)[8:12], [0, 0, 0, 1]]})
    assert b["kind"] == "rigid" and b["pose"] == at(5) and b["lo"] == [4, -1, -1]
    assert api.get(f"{scene}/bodies")["bodies"] == [a, b]
    half = math.sqrt(0.5)
    turned = api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": [1, 2, 3, 0, 0, 1.0005 * half, 1.0005 * half]})  # a quarter about z
    assert turned["pose"] == pytest.approx([0, -1, 0, 1, 1, 0, 0, 2, 0, 0, 1, 3], abs=1e-15)
    assert api("DELETE", f"{scene}/bodies/{turned['id']}").status == 204
    assert api.get(f"{scene}/bodies/{b['id']}") == b
    assert api.get(scene)["bodies"] == 2 and api.get(f"/v1/meshes/{mesh['id']}")["bodies"] == 2
    assert api("DELETE", f"{scene}/bodies/{a['id']}").status == 204
    assert api.get(f"{scene}/bodies")["bodies"] == [b]
    for method in ("GET", "DELETE"):
        answer = api(method, f"{scene}/bodies/{a['id']}")
        assert answer.status == 404 and answer.json["code"] in ("NOT_FOUND", "STALE_HANDLE")
        api.refused(method, f"{scene}/bodies/0", 404, "NOT_FOUND")
        api.refused(method, f"{scene}/bodies/4294967296", 404, "NOT_FOUND")
        api.refused(method, f"{scene}/bodies/x", 404, "NOT_FOUND")


@pytest.mark.parametrize(
    "body, status, code, field",
    [
        ({}, 400, "INVALID_ARGUMENT", "mesh"),
        ({"mesh": 0}, 422, "OUT_OF_RANGE", "mesh"),
        ({"mesh": "bunny"}, 400, "INVALID_ARGUMENT", "mesh"),
        ({"mesh": "ffffffff"}, 404, "NOT_FOUND", None),
        ({"mesh": 4503599627370000}, 404, "NOT_FOUND", None),
        ({"mesh": None, "kind": "soft"}, 400, "INVALID_ARGUMENT", "kind"),
        ({"mesh": None, "pose": IDENTITY[:11]}, 422, "WRONG_LENGTH", "pose"),
        ({"mesh": None, "pose": [0, 0, 0, 0, 0, 0, 0]}, 422, "OUT_OF_RANGE", "pose"),
        ({"mesh": None, "pose": [0, 0, 0, 1, 1, 0, 0]}, 422, "OUT_OF_RANGE", "pose"),
        ({"mesh": None, "pose": [2, *IDENTITY[1:]]}, None, None, "pose"),
        ({"mesh": None, "pose": [-1, *IDENTITY[1:]]}, None, None, "pose"),
        ({"mesh": None, "pose": ["1", *IDENTITY[1:]]}, 400, "INVALID_ARGUMENT", "pose[0]"),
        ({"mesh": None, "kind": "deformable", "pose": IDENTITY}, 400, "INVALID_ARGUMENT", "pose"),
        ({"mesh": None, "group": -1}, 422, "OUT_OF_RANGE", "group"),
        ({"mesh": None, "mask": 4294967296}, 422, "OUT_OF_RANGE", "mask"),
        ({"mesh": None, "ignore": 1}, 400, "INVALID_ARGUMENT", "ignore"),
        ({"mesh": None, "ignore": [-1]}, 400, "INVALID_ARGUMENT", "ignore[0]"),
        ({"mesh": None, "ignore": [77]}, None, None, "ignore"),
        ({"mesh": None, "mass": 3}, 400, "INVALID_ARGUMENT", "mass"),
    ],
    ids=lambda v: str(v),
)
def test_bodies_that_are_wrong(api, body, status, code, field):
    if "mesh" in body and body["mesh"] is None:
        body = {**body, "mesh": api.box()["id"]}
    scene = api.scene()
    answer = api("POST", f"{scene}/bodies", body)
    assert 400 <= answer.status < 500, answer.body
    problem = answer.json
    assert status in (None, answer.status) and code in (None, problem["code"]), problem
    assert field is None or problem["field"].startswith(field), problem
    assert api.get(scene)["bodies"] == 0


# ---- steps ----


def test_a_step(api, pair):
    scene, a, b = pair
    result = api.post(f"{scene}/step", {}, 200)
    (contact,) = result["contacts"]
    assert contact["bodies"] == [a["id"], b["id"]]
    assert contact["volume"] == pytest.approx(0.25, rel=0.05) and len(contact["volumes"]) == 3
    assert contact["error_bound"] is None and contact["error_estimate"] >= 0
    assert contact["normal"] == pytest.approx([-1, 0, 0], abs=1e-6)  # pushes a towards -x
    assert contact["area"] > 0 and contact["depth"] == pytest.approx(contact["volume"] / contact["area"])
    assert contact["center"] == pytest.approx([0.375, 0, 0], abs=0.05)
    ga, gb = contact["generalized_gradient"]
    assert ga[0] == pytest.approx(1, rel=0.05) and gb[0] == pytest.approx(-1, rel=0.05)
    assert "gradient_nonzeros" not in contact and "sparse" not in contact and "spans" not in contact
    assert result["method"] == "ldi" and result["backend"] == api.get("/v1/status")["backend"]
    assert result["pairs"] == 1 and result["rays"] == 3 * 32 * 32 and result["fragments"] > 0
    assert list(result["wall_us"]) == list(result["timings_us"]) and result["wall_us"]["queue"] == result["timings_us"]["queue"]
    assert all(value >= 0 for kind in ("timings_us", "wall_us") for value in result[kind].values())


def test_everything_a_step_can_return(api, pair):
    scene, a, b = pair
    want = ["frame", "gradient", "friction", "forces", "spans"]
    assert api("PATCH", scene, {"stiffness": 100}).json["stiffness"] == 100
    (contact,) = api.post(f"{scene}/step", {"want": want}, 200)["contacts"]
    for i, body in enumerate((a, b)):
        sparse = contact["sparse"][i]
        assert sparse["body"] == body["id"] and sparse["vertices"] == sorted(set(sparse["vertices"]))
        n = contact["gradient_nonzeros"][i]
        assert n == len(sparse["vertices"]) == len(sparse["gradient"]) == len(sparse["friction_weights"]) > 0
        for axis in range(3):
            total = math.fsum(g[axis] for g in sparse["gradient"])
            assert total == pytest.approx(contact["generalized_gradient"][i][axis], abs=1e-9)
        for force, gradient in zip(sparse["forces"], sparse["gradient"]):
            assert force == pytest.approx([-100 * contact["volume"] * g for g in gradient], abs=1e-9)
    assert {s["axis"] for s in contact["spans"]} == {0, 1, 2}
    for span in contact["spans"]:
        assert span["lower_body"] in contact["bodies"]
        assert span["upper"][span["axis"]] > span["lower"][span["axis"]]


def test_want_nothing_more_than_volumes(api, pair):
    (contact,) = api.post(f"{pair[0]}/step", {"want": []}, 200)["contacts"]
    assert set(contact) == {"bodies", "index", "volume", "volumes", "error_bound", "error_estimate", "max_winding",
                            "inverted_triangles", "inverted_volume"}
    assert (contact["index"], contact["max_winding"]) == (0, 0)


def test_patched_resolution_rules_the_next_step(api, pair):
    scene = pair[0]
    assert api.post(f"{scene}/step", {}, 200)["rays"] == 3 * 32 * 32
    assert api("PATCH", scene, {"resolution": 64}).json["resolution"] == [64] * 3
    assert api.post(f"{scene}/step", {}, 200)["rays"] == 3 * 64 * 64
    assert api("PATCH", scene, {"resolution": [8, 16, 32]}).status == 200
    assert api.post(f"{scene}/step", {}, 200)["rays"] == 8 * 16 + 8 * 32 + 16 * 32
    assert api("PATCH", scene, {"pixel_size": 0.125}).json["pixel_size"] == 0.125
    fine = api.post(f"{scene}/step", {}, 200)["rays"]
    assert api("PATCH", scene, {"pixel_size": 0.25}).status == 200
    assert 0 < api.post(f"{scene}/step", {}, 200)["rays"] < fine
    assert api("PATCH", scene, {"pixel_size": 0}).json["resolution"] == [8, 16, 32]
    assert api.post(f"{scene}/step", {}, 200)["rays"] == 8 * 16 + 8 * 32 + 16 * 32
    assert api("PATCH", scene, {}).json["resolution"] == [8, 16, 32]


def test_updates_move_bodies(api, pair):
    scene, a, b = pair

    def volume(**update) -> float:
        return sum(c["volume"] for c in api.post(f"{scene}/step", {"updates": [update]}, 200)["contacts"])

    assert volume(body=b["id"], pose=at(2)) == 0
    assert volume(body=b["id"], pose=[at(0.5)[0:4], at(0.5)[4:8], at(0.5)[8:12]]) == pytest.approx(0.5, rel=0.05)
    corners = box()[0]
    assert volume(body=a["id"], positions=[[x + 0.25, y, z] for x, y, z in corners]) == pytest.approx(0.75, rel=0.05)
    right = [i for i, corner in enumerate(corners) if corner[0] > 0]
    assert volume(body=a["id"], indices=right, positions=[[0.5, *corners[i][1:]] for i in right]) == pytest.approx(
        0.5, rel=0.05
    )
    assert volume(body=a["id"], ranges=[[0, 4], [4, 4]], positions=corners) == pytest.approx(0.5, rel=0.05)
    assert api.get(f"{scene}/bodies/{b['id']}")["pose"] == at(0.5)
    assert api.get(f"{scene}/bodies/{a['id']}")["lo"] == [-0.5] * 3


WRONG_STEPS = [
    ({"updates": {}}, 400, "INVALID_ARGUMENT", "updates"),
    ({"updates": [None]}, 400, "INVALID_ARGUMENT", "updates[0]"),
    ({"updates": [{"pose": IDENTITY}]}, 400, "INVALID_ARGUMENT", "updates[0].body"),
    ({"updates": [{"body": "b"}]}, 400, "INVALID_ARGUMENT", "updates[0]"),
    ({"updates": [{"body": "b", "pose": IDENTITY, "positions": []}]}, 400, "INVALID_ARGUMENT", "updates[0]"),
    ({"updates": [{"body": "b", "pose": [2, *IDENTITY[1:]]}]}, None, None, None),
    ({"updates": [{"body": "b", "positions": box()[0]}]}, None, None, None),  # rigid
    ({"updates": [{"body": "a", "pose": IDENTITY}]}, None, None, None),  # deformable
    ({"updates": [{"body": "a", "positions": box()[0][:7]}]}, 422, "WRONG_LENGTH", None),
    ({"updates": [{"body": "a", "positions": []}]}, 422, "WRONG_LENGTH", None),
    ({"updates": [{"body": "a", "positions": [[0, 0, 0]], "indices": [8]}]}, 422, "OUT_OF_RANGE", None),
    ({"updates": [{"body": "a", "positions": [[0, 0, 0]], "indices": [0, 1]}]}, 422, "WRONG_LENGTH", None),
    ({"updates": [{"body": "a", "positions": [[0, 0, 0]], "ranges": [[7, 2]]}]}, 422, None, None),
    ({"updates": [{"body": "a", "positions": [[0, 0, 1e300]], "indices": [0]}]}, 422, "NON_FINITE", None),
    ({"updates": [{"body": 4000000000, "pose": IDENTITY}]}, 404, None, None),
    ({"want": ["everything"]}, 400, "INVALID_ARGUMENT", "want[0]"),
    ({"want": "frame"}, 400, "INVALID_ARGUMENT", "want"),
    ({"sequence": 1}, 400, "INVALID_ARGUMENT", "sequence"),
    ({"deadline_us": -1}, 422, "OUT_OF_RANGE", "deadline_us"),
    ({"time_budget_us": 1000}, 400, "INVALID_ARGUMENT", "time_budget"),  # LDI takes none
    ({"tolerance": 1e-9}, 400, "INVALID_ARGUMENT", "tolerance"),
    ({"tolerance": 0}, 422, "OUT_OF_RANGE", "tolerance"),  # whoever wants none leaves it out
    ({"tolerance": 1e301}, 422, "OUT_OF_RANGE", "tolerance"),
    ({"updates": [{"body": "b", "pose": [1, 0, 0, 1e17, 0, 1, 0, 0, 0, 0, 1, 0]}]}, None, None, None),
]


@pytest.mark.parametrize("body, status, code, field", WRONG_STEPS, ids=lambda v: str(v)[:60])
def test_steps_that_are_wrong(api, pair, body, status, code, field):
    scene, a, b = pair
    before = api.post(f"{scene}/step", {}, 200)["contacts"]
    text = json.dumps(body).replace('"body": "a"', f'"body": {a["id"]}').replace('"body": "b"', f'"body": {b["id"]}')
    answer = api("POST", f"{scene}/step", text.encode(), {"Content-Type": "application/json"})
    assert 400 <= answer.status < 500, answer.body
    problem = answer.json
    assert status in (None, answer.status) and code in (None, problem["code"]), problem
    assert field in (None, problem.get("field")), problem
    assert api.post(f"{scene}/step", {}, 200)["contacts"] == before  # a refused step has changed nothing


def test_warnings(api, pair):
    scene, a, _ = pair
    corners = box()[0]

    def step(*updates) -> list:
        answer = api("POST", f"{scene}/step", {"updates": list(updates)})
        assert answer.status == 200, answer.body
        return answer.json["warnings"]

    def counted(code: str) -> int:
        text = api("GET", "/metrics").body.decode()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith(
            f'contactd_step_warnings_total{{code="{code}"}}')))

    before = counted("BODY_INVERTED"), counted("BODY_COLLAPSED")
    assert step() == []
    inverted = [{"code": "BODY_INVERTED", "body": a["id"], "volume": -1}]
    assert step({"body": a["id"], "positions": [[-x, y, z] for x, y, z in corners]}) == inverted
    assert step() == inverted
    # What is refused changes nothing.
    api.refused("POST", f"{scene}/step", 422, "NON_FINITE",
                {"updates": [{"body": a["id"], "positions": [*corners[:7], [0, 0, 1e300]]}]})
    assert step() == inverted
    flat = [{"code": "BODY_COLLAPSED", "body": a["id"], "volume": 0}]
    assert step({"body": a["id"], "positions": [[x, y, 0.5] for x, y, z in corners]}) == flat
    assert step({"body": a["id"], "positions": corners}) == []
    assert (counted("BODY_INVERTED") - before[0], counted("BODY_COLLAPSED") - before[1]) == (3, 1)


def test_a_deadline_that_has_passed(api):
    """One microsecond has passed before the request is parsed."""
    scene = api.scene()
    mesh = api.post("/v1/meshes", obj(*torus(80, 40)))
    for x in (0, 0.1):
        api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": at(x)})
    api.refused("POST", f"{scene}/step", 504, "DEADLINE_EXCEEDED", {"deadline_us": 1})
    assert api.post(f"{scene}/step", {"deadline_us": 4_000_000_000}, 200)["contacts"]


def test_filters(api):
    mesh = api.box()
    scene = api.scene(resolution=8)
    a = api.post(f"{scene}/bodies", {"mesh": mesh["id"]})
    api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": at(0.5), "ignore": [a["id"]]})
    assert api.post(f"{scene}/step", {}, 200)["pairs"] == 0
    api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": at(-0.75), "group": 2, "mask": 2})
    assert api.post(f"{scene}/step", {}, 200)["pairs"] == 0
    d = api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": at(0, 0.5)})
    assert {tuple(c["bodies"]) for c in api.post(f"{scene}/step", {}, 200)["contacts"]} == {
        (a["id"], d["id"]),
        (a["id"] + 1, d["id"]),
    }


def test_an_answer_over_the_limit_is_refused(make_server):
    """Spans of a fine sampling: more text than the server says it sends."""
    api = Api(make_server("--max-message", "64K").http)
    mesh = api.box()
    scene = api.scene(resolution=64)
    for x in (0, 0.5):
        api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": at(x)})
    api.refused("POST", f"{scene}/step", 413, "TOO_LARGE", {"want": ["spans"]}, field="want")
    assert len(api.post(f"{scene}/step", {}, 200)["contacts"]) == 1


# ---- statistics ----


def test_stats(api, pair):
    scene, a, b = pair
    fresh = api.get(f"{scene}/stats")
    assert fresh["steps"] == 0
    assert fresh["latency_us"] == {"steps": 0, "p50": None, "p90": None, "p99": None, "max": None}
    result = [api.post(f"{scene}/step", {}, 200) for _ in range(3)][-1]
    api("POST", f"{scene}/step", {"updates": [{"body": a["id"], "positions": []}]})
    stats = api.get(f"{scene}/stats")
    assert (stats["steps"], stats["failed"], stats["pending"], stats["bodies"]) == (3, 1, 0, 2)
    last = stats["last"]
    assert (last["contacts"], last["pairs"], last["rays"]) == (1, 1, result["rays"])
    assert last["volume"] == result["contacts"][0]["volume"] and last["fragments"] == result["fragments"]
    for kind in ("timings_us", "wall_us"):
        assert last[kind] == pytest.approx(result[kind], rel=1e-3, abs=1e-3)
        for phase, total in stats["total"][kind].items():
            assert stats["mean"][kind][phase] == pytest.approx(total / 3)
            assert total >= last[kind][phase] - 1e-9
    latency = stats["latency_us"]
    assert latency["steps"] == 3 and 0 < latency["p50"] <= latency["p90"] <= latency["p99"] == latency["max"] < 60e6
    for _ in range(130):
        api.post(f"{scene}/step", {}, 200)
    latency = api.get(f"{scene}/stats")["latency_us"]
    assert latency["steps"] == 128 and 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert api.get(scene)["steps"] == 133 and api.get(scene)["contacts"] == 1
