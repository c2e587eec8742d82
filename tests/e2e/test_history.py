"""GET /v1/history: what the server did in each of the last seconds."""

from __future__ import annotations

import hashlib
import signal
import time

import contactd
import numpy as np
import pytest
from conftest import SLOW, pause
from geometry import UNIT_BOX, moved
from http_api import Api

PATIENT = 20 * SLOW


def wait_for(api: Api, found, headers: dict | None = None) -> dict:
    deadline = time.monotonic() + PATIENT
    while True:
        answer = api("GET", "/v1/history?seconds=900", None, headers)
        assert answer.status == 200
        if found(answer.json) or time.monotonic() > deadline:
            return answer.json
        time.sleep(0.1)


def steps_in(told: dict) -> float:
    """All that ended after the first sample; those of another interval may be told later."""
    return sum(s * d for s, d in zip(told["series"]["steps_per_s"][1:], np.diff(told["time"])))


def test_what_is_told_of_steps(fresh_server):
    api = Api(fresh_server.http)
    with contactd.connect(fresh_server.stream, timeout=PATIENT) as client:
        scene = client.open_scene()
        mesh = client.register_mesh(*UNIT_BOX)
        bodies = [scene.add_body(mesh, moved(x)) for x in (0, 0.75)]
        wait_for(api, lambda told: len(told["time"]) >= 2)
        for k in range(50):
            scene.step(poses={bodies[1]: moved(0.75 + 1e-3 * k)})
    told = wait_for(api, lambda told: steps_in(told) > 48 and len(told["time"]) >= 4)
    series, n = told["series"], len(told["time"])
    assert told["interval_s"] == 1 and np.all(np.diff(told["time"]) > 0)
    curves = [series[name] for name in ("steps_per_s", "latency_p50_ms", "latency_p99_ms", "queue", "memory_bytes", "running_steps")]
    assert all(len(curve) == n for curve in [*curves, *series["phases_ms"].values(), *series["principals"].values()])
    assert steps_in(told) == pytest.approx(50, abs=2)
    assert sum(series["principals"]["no principal"]) == pytest.approx(sum(series["steps_per_s"]), abs=1)
    latencies = list(zip(series["latency_p50_ms"], series["latency_p99_ms"]))
    assert all((p50 is None) == (p99 is None) and (p50 is None or 0 < p50 <= p99) for p50, p99 in latencies)
    assert (None, None) in latencies and any(p50 for p50, _ in latencies)
    assert list(series["phases_ms"]) == ["queue", "updates", "pairs", "crossing", "summing", "contacts", "download"]
    assert any(value for value in series["phases_ms"]["crossing"]) and max(series["memory_bytes"]) > 0
    assert len(api.get("/v1/history?seconds=2")["time"]) == 2


def test_a_step_in_a_long_interval_is_told(fresh_server):
    """A sample that a busy machine delays is of less than half a step a second."""
    api = Api(fresh_server.http)
    scene = api.post("/v1/scenes", {})["id"]
    wait_for(api, lambda told: told["time"])
    api.post(f"/v1/scenes/{scene}/step", {}, 200)
    pause(fresh_server.process)
    time.sleep(3)
    fresh_server.process.send_signal(signal.SIGCONT)
    series = wait_for(api, lambda told: any(told["series"]["steps_per_s"]))["series"]
    assert max(series["principals"]["no principal"]) == pytest.approx(max(series["steps_per_s"]))


@pytest.mark.parametrize("query, field", [("seconds=0", "seconds"), ("seconds=901", "seconds"), ("minutes=1", "minutes")])
def test_bad_queries(server, query, field):
    Api(server.http).refused("GET", f"/v1/history?{query}", 400, "INVALID_ARGUMENT", field=field)


def test_who_sees_whom(make_server, tmp_path):
    tokens = {name: f"token-of-{name}-0123456789" for name in ("alice", "bob", "boss")}
    rows = [f"{name} {'operator' if name == 'boss' else 'simulator'} token=sha256:{hashlib.sha256(token.encode()).hexdigest()}"
            for name, token in tokens.items()]
    (tmp_path / "principals").write_text("\n".join(rows) + "\n")
    (tmp_path / "principals").chmod(0o600)
    api = Api(make_server("--principals", str(tmp_path / "principals")).http)
    as_ = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    for name in ("alice", "bob"):
        scene = api("POST", "/v1/scenes", {}, as_[name]).json["id"]
        for _ in range(3):
            assert api("POST", f"/v1/scenes/{scene}/step", {}, as_[name]).status == 200
    told = wait_for(api, lambda told: len(told["series"]["principals"]) == 2, as_["boss"])
    assert set(told["series"]["principals"]) == {"alice", "bob"}
    assert set(wait_for(api, lambda told: told["series"]["principals"], as_["bob"])["series"]["principals"]) == {"bob"}
