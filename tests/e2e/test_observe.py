"""What is seen of the server from outside: metrics, health, lists, and answers that say how to go on."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import urllib.parse

import contactd
import numpy as np
import pytest
from conftest import SLOW, Server, wait_until
from geometry import UNIT_BOX, moved
from http_api import Api, box
from prometheus_client.parser import text_string_to_metric_families


def scrape(server: Server) -> dict[str, dict[tuple, float]]:
    """Metric's sample name -> sorted labels -> value, of a text that Prometheus' own parser takes."""
    text = Api(server.http)("GET", "/metrics").body.decode()
    found: dict[str, dict[tuple, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type != "unknown", family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} stands twice"
            found[sample.name][labels] = sample.value
    return found


def two_boxes(client: contactd.Client, **settings) -> tuple[contactd.Scene, contactd.Body]:
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(**settings)
    scene.add_body(mesh, pose=np.eye(4))
    return scene, scene.add_body(mesh, pose=np.eye(4))


# ---- metrics ----


def test_metrics_are_what_prometheus_takes(fresh_server):
    with contactd.connect(fresh_server.stream, timeout=10 * SLOW) as client:
        scene, body = two_boxes(client)
        for shift in (0.1, 0.2, 0.3):
            scene.step(poses={body: moved(x=shift)})
        Api(fresh_server.http)("GET", "/v1/scenes/77", check=False)
        found = scrape(fresh_server)
    latency = found["contactd_step_latency_seconds_count"]
    assert latency[(("lane", "small"),)] + latency[(("lane", "large"),)] == 3
    assert sum(found["contactd_step_latency_seconds_sum"].values()) > 0
    assert found["contactd_http_requests_total"][(("route", "/v1/scenes/{scene}"), ("status", "404"))] == 1
    ((build, one),) = found["contactd_build_info"].items()
    assert dict(build)["version"] == contactd.__version__ and one == 1
    for name in ("contactd_mesh_bytes", "contactd_scene_bytes", "contactd_scratch_bytes", "contactd_unread_bytes",
                 "contactd_sessions", "contactd_scenes", "contactd_connections"):
        assert 0 <= found[name][()] <= found[f"{name}_limit"][()], name
    assert found["process_resident_memory_bytes"][()] > 1e6
    assert found["process_max_fds"][()] > found["process_open_fds"][()] > 3
    started = found["process_start_time_seconds"][()]
    assert abs(started - os.stat(f"/proc/{fresh_server.pid}").st_ctime) < 60 * SLOW
    assert found["contactd_insecure"][()] == 0
    assert found["contactd_io_silence_seconds"][()] < 30 * SLOW


def test_scratch_that_no_step_needs_is_given_back(make_server):
    server = make_server("--scratch-idle", "0.2")
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        scene, body = two_boxes(client)
        peak = []
        for shift in (0.1, 0.2):  # and the next step allocates it anew
            scene.step(poses={body: moved(x=shift)})
            wait_until(lambda: scrape(server)["contactd_scratch_bytes"][()] == 0, "scratch without a byte")
            peak.append(scrape(server)["contactd_scratch_peak_bytes"][()])
    assert peak[0] > 50_000


def test_promtool_has_no_complaint(fresh_server):
    if not shutil.which("promtool"):
        pytest.skip("promtool (Debian: prometheus) is not installed")
    text = Api(fresh_server.http)("GET", "/metrics").body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- answers that say how to go on ----


def test_compressed_bodies_are_refused_in_words(server):
    api = Api(server.http)
    vertices, triangles = box()
    body = gzip.compress(json.dumps({"vertices": vertices, "triangles": triangles}).encode())
    answer = api("POST", "/v1/meshes", body, {"Content-Encoding": "gzip", "Content-Type": "application/json"})
    assert answer.status == 415 and answer.headers["Accept-Encoding"] == "identity"
    assert answer.json["field"] == "Content-Encoding" and "not compressed" in answer.json["detail"]
    assert api("POST", "/v1/scenes", b"{}", {"Content-Encoding": "identity"}).status == 201


def test_a_limit_that_time_will_mend_says_when(make_server):
    api = Api(make_server("--max-scenes", "1").http)
    path = f"/v1/scenes/{api.post('/v1/scenes', {})['id']}"
    answer = api("POST", "/v1/scenes", {})
    assert answer.status == 503 and answer.json["code"] == "LIMIT_EXCEEDED" and int(answer.headers["Retry-After"]) >= 1
    assert api("DELETE", path).status == 204
    assert api("POST", "/v1/scenes", {}).status == 201


# ---- lists ----


def test_sessions(make_server):
    server = make_server()
    api = Api(server.http)
    assert api.get("/v1/sessions") == {"sessions": []}
    with contactd.connect(server.stream, name="first") as first, contactd.connect(server.stream, name="second") as second:
        first.open_scene()
        sessions = api.get("/v1/sessions")["sessions"]
        assert [s["client"] for s in sessions] == ["first", "second"]
        assert [s["scenes"] for s in sessions] == [1, 0] and sessions[0]["id"] < sessions[1]["id"]
        assert all(s["principal"] == "" and s["lease_s"] == 60 and s["idle_s"] >= 0 for s in sessions)
        second.ping()
        # The number by which a session speaks is a secret.
        assert str(first._link._connection.session.id) not in json.dumps(sessions)


def test_pages(make_server):
    server = make_server()
    api = Api(server.http)
    ids = [api.post("/v1/scenes", {})["id"] for _ in range(5)]
    meshes = [api.box(size=(1 + k, 1, 1))["id"] for k in range(3)]
    assert sorted(ids) == ids
    seen, after = [], ""
    while True:
        page = api.get(f"/v1/scenes?limit=2{after}")
        seen.append([scene["id"] for scene in page["scenes"]])
        if "next" not in page:
            break
        assert page["next"] == seen[-1][-1]
        after = f"&after={page['next']}"
    assert seen == [ids[:2], ids[2:4], ids[4:]]
    api("DELETE", f"/v1/scenes/{ids[1]}")  # the id of a scene that is gone is as good a place to go on from
    assert [s["id"] for s in api.get(f"/v1/scenes?after={ids[1]}&limit=2")["scenes"]] == ids[2:4]
    assert "next" not in api.get("/v1/scenes?limit=4")
    assert [m["id"] for m in api.get(f"/v1/meshes?after={meshes[0]}")["meshes"]] == meshes[1:]
    assert api.get("/v1/meshes?limit=3") == api.get("/v1/meshes")
    assert len(api.get("/v1/sessions?limit=1")["sessions"]) == 0
    named = [api.post("/v1/scenes", {"name": name})["id"] for name in ("Arm 7", "arm 8", "half % = ä")]

    def found(text: str) -> list[int]:
        return [scene["id"] for scene in api.get("/v1/scenes?" + urllib.parse.urlencode({"find": text}))["scenes"]]

    assert found("ARM") == sorted(named[:2]) and found("arm 8") == named[1:2] and found("% = ä") == named[2:] and found("leg") == []
    assert found(str(ids[0])) == sorted(i for i in (ids[0], *ids[2:], *named) if str(i).startswith(str(ids[0])))
    assert api.get("/v1/scenes?find=arm&limit=1")["next"] == min(named[:2])
    api.refused("GET", "/v1/scenes?find=", 400, "INVALID_ARGUMENT", field="find")
    api.refused("GET", "/v1/meshes?find=a", 400, "INVALID_ARGUMENT", field="find")
    for query, field in (("limit=0", "limit"), ("limit=2000", "limit"), ("after=x", "after"), ("page=2", "page")):
        api.refused("GET", f"/v1/scenes?{query}", 400, "INVALID_ARGUMENT", field=field)


# ---- changes by several people ----


def test_if_match(server):
    api = Api(server.http)
    made = api("POST", "/v1/scenes", {"resolution": 8})
    path, tag = made.headers["Location"], made.headers["ETag"]
    assert api("GET", path).headers["ETag"] == tag
    changed = api("PATCH", path, {"resolution": 9}, {"If-Match": tag})
    assert changed.status == 200 and changed.headers["ETag"] != tag
    for stale in (tag, f"W/{changed.headers['ETag']}", '"x"', f'{tag}, "y"', ""):
        problem = api.refused("PATCH", path, 412, "CONFLICT", {"resolution": 10}, {"If-Match": stale}, field="If-Match")
        assert problem["object"].startswith("scene")
    assert api.get(path)["resolution"] == [9, 9, 9]
    both = f'"other", {changed.headers["ETag"]}'
    assert api("PATCH", path, {"resolution": 11}, {"If-Match": both}).status == 200
    assert api("PATCH", path, {"resolution": 12}, {"If-Match": "*"}).status == 200
    before = api("GET", path).headers["ETag"]
    mesh = api.box()
    api.post(f"{path}/bodies", {"mesh": mesh["id"], "pose": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]})
    after = api("GET", path).headers["ETag"]
    assert after != before
    assert api("POST", f"{path}/step", {}).status == 200
    assert api("GET", path).headers["ETag"] == after  # a step changes no setting


def test_only_one_of_two_changes_at_once_wins(server):
    """All start from the same ETag: exactly one gets through."""
    import threading

    path = Api(server.http).scene()
    tag = Api(server.http)("GET", path).headers["ETag"]
    answers = []

    def change(k: int) -> None:
        answers.append(Api(server.http)("PATCH", path, {"resolution": 20 + k}, {"If-Match": tag}).status)

    threads = [threading.Thread(target=change, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [412] * 7


def test_a_step_that_is_sent_again_is_not_taken_again(server):
    api = Api(server.http)
    path = api.scene(resolution=8)
    mesh = api.box()
    for _ in range(2):
        api.post(f"{path}/bodies", {"mesh": mesh["id"], "pose": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]})

    def step(shift: float, key: str | None):
        body = {"updates": [{"body": 2, "pose": [1, 0, 0, shift, 0, 1, 0, 0, 0, 0, 1, 0]}]}
        return api("POST", f"{path}/step", body, {"Idempotency-Key": key} if key else {})

    first = step(0.25, "a")
    assert first.status == 200
    assert step(0.5, None).json["contacts"][0]["volume"] == pytest.approx(0.5)
    again = step(0.25, "a")
    assert again.body == first.body
    assert api.get(f"{path}/stats")["steps"] == 2  # and the body is where the step between left it
    assert api("POST", f"{path}/step", {}).json["contacts"][0]["volume"] == pytest.approx(0.5)
    other = step(0.75, "a")
    assert other.status == 422 and other.json["field"] == "Idempotency-Key"
    failed = api("POST", f"{path}/step", {"updates": [{"body": 9, "pose": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]}]},
                 {"Idempotency-Key": "b"})
    assert failed.status == 404 and step(0.25, "b").status == 200  # what failed has used no key up
    for key in ("a b", "x" * 129):
        api.refused("POST", f"{path}/step", 400, "INVALID_ARGUMENT", {}, {"Idempotency-Key": key}, field="Idempotency-Key")


# ---- unused scenes ----


def test_scenes_of_http_have_a_time_to_live(make_server):
    server = make_server("--http-scene-ttl", "1500ms")
    api = Api(server.http)
    opened = [api.post("/v1/scenes", settings) for settings in ({"ttl_s": 1}, {"ttl_s": 0}, {})]
    assert [scene["ttl_s"] for scene in opened] == [1, None, 2]
    short, kept, named = (f"/v1/scenes/{scene['id']}" for scene in opened)
    owned = api.scene(ttl_s=1)
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        mine = client.open_scene()
        wait_until(lambda: api("GET", short).status == 404, "the scene closed")
        assert api("GET", short).json["code"] == "STALE_HANDLE"
        wait_until(lambda: api("GET", named).status == 404 and api("GET", owned).status == 404, "the others closed")
        assert api("GET", kept).status == 200
        assert api.get(f"/v1/scenes/{mine.id}")["ttl_s"] is None  # its client's lease says how long it lives
        mine.add_body(client.register_mesh(*UNIT_BOX), pose=np.eye(4))
    assert "not used for its time to live" in server.logs()
    api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {"ttl_s": -1}, field="ttl_s")


# ---- the log ----

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_json_lines_name_session_scene_code_duration_and_trace(make_server):
    server = make_server("--log-format", "json", "--log-level", "debug")
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        scene, body = two_boxes(client)
        client.traceparent = TRACE
        scene.step(poses={body: moved(x=0.5)})
        client.traceparent = None
        with pytest.raises(contactd.errors.NotFoundError):
            client._link.call(_request("GetScene", {"scene": 12345}))
        for broken in ("nonsense", TRACE.upper(), "00-" + "0" * 32 + TRACE[35:], "ff" + TRACE[2:]):
            with pytest.raises(contactd.errors.InvalidArgumentError):
                client.traceparent = broken
        api = Api(server.http)
        api("GET", f"/v1/scenes/{scene.id}", headers={"traceparent": TRACE})
        api("GET", f"/v1/scenes/{scene.id}", headers={"traceparent": "nonsense"})
        (session,) = api.get("/v1/sessions")["sessions"]
    lines = [json.loads(line) for line in server.logs().splitlines()]

    def one(message: str, **fields) -> dict:
        found = [x for x in lines if x["message"] == message and all(x.get(k) == v for k, v in fields.items())]
        assert len(found) == 1, (message, fields, found)
        return found[0]

    step = one("answered Step", trace_id=TRACE[3:35])
    assert step["session"] == session["id"] and step["scene"] == scene.id and step["code"] == "OK"
    assert 0 < step["duration_s"] < 60 * SLOW
    assert one("answered GetScene", code="NOT_FOUND")["session"] == session["id"]
    assert "trace_id" not in one("answered GetScene", code="NOT_FOUND")
    seen = one(f"200 /v1/scenes/{scene.id}", trace_id=TRACE[3:35])
    assert seen["scene"] == scene.id and seen["code"] == "OK" and seen["duration_s"] > 0
    assert sum("trace_id" in line for line in lines) == 2


def _request(kind: str, body: dict):
    from contactd._state import Request

    return Request(kind, lambda: (body, None), lambda answer: answer.body, timeout=10 * SLOW)


def test_a_hello_is_a_line_only_at_debug(fresh_server):
    contactd.connect(fresh_server.stream, timeout=10 * SLOW).close()
    assert "opened a session" not in fresh_server.logs()
