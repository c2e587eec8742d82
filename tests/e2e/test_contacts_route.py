"""GET /v1/scenes/{scene}/contacts: those of the last step, of sessions and of HTTP, in pages and orders; and what cannot be had."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import contactd
import pytest
from conftest import CONTACTCTL, SLOW
from geometry import UNIT_BOX, moved
from http_api import Api


@pytest.fixture
def api(server) -> Api:
    return Api(server.http)


@pytest.fixture
def row(server):
    """Five boxes in a row, each deeper in the next one."""
    with contactd.connect(server.stream, timeout=20 * SLOW) as client:
        scene, at = client.open_scene(), 0.0
        for k in range(5):
            at += 1 - 0.1 * k
            scene.add_body(client.register_mesh(*UNIT_BOX), moved(at, 0.01 * k, 0.02 * k))
        yield scene


def test_pages_and_orders(api, row):
    path = f"/v1/scenes/{row.id}/contacts"
    empty = api.get(path)
    assert (empty["total"], empty["step"], empty["contacts"]) == (0, 0, [])
    result = row.step(want=("frame", "ids"))
    page = api.get(path)
    assert (page["scene"], page["step"], page["total"], page["offset"]) == (row.id, 1, 4, 0)
    assert [c["volume"] for c in page["contacts"]] == list(result.volumes) and "gradient" not in page["contacts"][0]
    assert [c["id"] for c in page["contacts"]] == list(result.ids)
    volumes = sorted(result.volumes, reverse=True)
    assert [c["volume"] for c in api.get(f"{path}?sort=volume")["contacts"]] == volumes
    part = api.get(f"{path}?sort=depth&offset=1&limit=2")
    assert [c["depth"] for c in part["contacts"]] == sorted(result.depths, reverse=True)[1:3] and part["total"] == 4
    assert [c["id"] for c in api.get(f"{path}?sort=id")["contacts"]] == sorted(result.ids)
    of_one = api.get(f"{path}?body=3")
    assert of_one["total"] == 2 and all(3 in c["bodies"] for c in of_one["contacts"])
    assert api.get(f"{path}?offset=9")["contacts"] == []


def test_steps_over_http_are_kept_too(api):
    mesh, scene = api.box()["id"], api.scene()
    for x in (0.0, 0.75):
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": [1, 0, 0, x, 0, 1, 0, 0, 0, 0, 1, 0]})
    step = api.post(f"{scene}/step", {"want": ["frame", "gradient"]}, 200)
    (contact,) = api.get(f"{scene}/contacts")["contacts"]
    assert contact["volume"] == step["contacts"][0]["volume"] == 0.25 and contact["depth"] == step["contacts"][0]["depth"]
    api.post(f"{scene}/step", {"updates": [{"body": 1, "pose": [1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0]}]}, 200)
    assert api.get(f"{scene}/contacts")["total"] == 0


def test_a_step_that_failed(api, row):
    row.step()
    with pytest.raises(contactd.ContactdError):
        row.step(poses={row.bodies[0]: moved(1e300)})
    api.refused("GET", f"/v1/scenes/{row.id}/contacts", 409, "CONFLICT", field="scene")
    row.step()
    assert api.get(f"/v1/scenes/{row.id}/contacts")["total"] == 4


@pytest.mark.parametrize("query, field", [("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("sort=area", "sort"),
                                          ("body=x", "body"), ("page=2", "page"), ("limit=2&limit=2", "limit"), ("sort=", "sort")])
def test_bad_queries(api, query, field):
    api.refused("GET", f"{api.scene()}/contacts?{query}", 400, "INVALID_ARGUMENT", field=field)


def test_no_such_scene(api):
    api.refused("GET", "/v1/scenes/987654/contacts", 404, "NOT_FOUND")


# ---- contactctl contacts ----


def ctl(server, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*CONTACTCTL, "--server", server.stream, "contacts", *arguments], capture_output=True, text=True,
                          timeout=60 * SLOW, check=False)


def test_on_the_command_line(server, api, row):
    row.step(want=("frame", "ids"))
    done = ctl(server, str(row.id), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == api.get(f"/v1/scenes/{row.id}/contacts")
    by_depth = json.loads(ctl(server, str(row.id), "--json", "--sort", "depth", "--body", "3").stdout)
    assert by_depth["contacts"] == api.get(f"/v1/scenes/{row.id}/contacts?sort=depth&body=3")["contacts"] and by_depth["total"] == 2
    table = ctl(server, str(row.id)).stdout.splitlines()
    assert table[0] == f"scene {row.id}, step 1: 4 contacts" and table[2].startswith("ID") and len(table) == 7
    row.step(want=())
    assert " - " in ctl(server, str(row.id)).stdout.splitlines()[3]


def test_watching_on_the_command_line(server, row):
    row.step()
    command = [*CONTACTCTL, "--server", server.stream, "contacts", str(row.id), "--watch", "--interval", "0.05"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    seen, deadline = "", time.monotonic() + 60 * SLOW
    while "step 1:" not in seen and time.monotonic() < deadline:
        seen = watching.stdout.readline()
    row.step()
    while "step 2:" not in seen and time.monotonic() < deadline:
        seen = watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    watching.stdout.close()
    assert "step 2:" in seen and watching.wait(60 * SLOW) != 0


@pytest.mark.parametrize("arguments, message", [(("x",), "scene"), (("--sort", "area"), "--sort"), (("--body", "0"), "--body"),
                                                (("--interval", "0"), "--interval"), (("--interval", "inf"), "--interval"),
                                                (("--interval", "2"), "no --watch")])
def test_bad_command_lines(server, row, arguments, message):
    done = ctl(server, *(arguments if arguments == ("x",) else (str(row.id), *arguments)))
    assert done.returncode == 2 and message in done.stderr and not done.stdout, (done.returncode, done.stderr)
