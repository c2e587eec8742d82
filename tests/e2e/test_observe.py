"""What is seen of the server from outside: metrics, health, lists, and answers that say how to go on."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess

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
