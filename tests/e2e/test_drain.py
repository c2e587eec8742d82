"""A server that drains tells its clients where to go. They go there, with one address or several, busy or idle, and no step is
lost or done twice."""

from __future__ import annotations

import signal
import subprocess
import threading
import time

import contactd
import pytest
from conftest import BUILD, CC, SLOW, Server, free_port, wait_until
from contactd.errors import ErrorCode
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api
from raw import Raw
from test_servers import SLACK, TIMEOUT, Load, settle

PROGRAM = r"""
#include <contactd.h>
#include <stdio.h>
#include <stdlib.h>

static void must(contactd_client *client, contactd_code code) {
    if (code == CONTACTD_OK) return;
    fprintf(stderr, "%s\n", contactd_last_error(client)->message);
    exit(1);
}

/* A step for each line that comes. */
int main(int argc, char **argv) {
    contactd_options options;
    contactd_client *client = NULL;
    contactd_mesh mesh;
    contactd_scene scene;
    contactd_body body;
    contactd_options_init(&options);
    options.server = argv[argc - 3];
    options.timeout_ms = (uint32_t)atoi(argv[argc - 2]);
    if (contactd_connect(&options, &client, NULL)) return 1;
    must(client, contactd_register_mesh_file(client, argv[argc - 1], &mesh));
    must(client, contactd_open_scene(client, "idle", NULL, &scene));
    for (int i = 0; i < 2; i++) {
        contactd_body_options placed;
        contactd_body_options_init(&placed);
        placed.rigid = true;
        placed.pose[3] = 0.25 * i;
        must(client, contactd_add_body(client, scene, mesh, &placed, &body));
    }
    while (getchar() != EOF) {
        const contactd_result *result;
        must(client, contactd_step(client, scene, NULL, 0, NULL, &result));
        printf("%.17g\n", result->contacts[0].volume);
        fflush(stdout);
    }
    contactd_close(&client);
    return 0;
}
"""


@pytest.fixture
def pair(make_server) -> tuple[Server, Server]:
    """The second is the successor of the first."""
    heir = make_server()
    return make_server("--successor", heir.stream), heir


@pytest.fixture(scope="module")
def calm(_module_server):
    with contactd.connect(_module_server.stream, timeout=TIMEOUT) as client:
        return Load(client, 6, 60).run()


def test_a_client_with_one_address_moves_under_load(pair, calm):
    old, heir = pair
    with contactd.connect(old.stream, timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)
        ended = []
        thread = threading.Thread(target=lambda: ended.append(old.stop(60)))
        assert load.run(thread.start, 20) == calm
        thread.join()
        assert ended == [0] and not old.alive()
        wait_until(lambda: client._link.address == heir.stream, "a client that has moved")
        assert f"clients are told to go to {heir.stream}" in old.logs()
        assert client.status()["scenes"] == 6


def test_a_mesh_that_takes_longer_than_the_drain_is_made_by_the_successor(make_server):
    heir = make_server("--max-step-time", "1h")
    old = make_server("--max-step-time", "1h", "--drain", "0", "--successor", heir.stream)
    made = []
    with contactd.connect(old.stream, timeout=5 * TIMEOUT) as client:
        thread = threading.Thread(target=lambda: made.append(
            client.register_mesh(*icosphere(1.0, 3), closing="wrap", resolution=0.05)))
        thread.start()
        wait_until(lambda: Api(old.http).get("/v1/status")["running"], "the mesh that is made")
        assert old.stop(60) == 0
        thread.join()
        assert made[0].closing == "wrap"
        wait_until(lambda: client._link.address == heir.stream, "the successor")


def test_an_idle_client_moves_too(pair):
    """It is told, though it asks for nothing, and goes on when the old server has long been gone."""
    old, heir = pair
    with contactd.connect(old.stream, timeout=TIMEOUT) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=32)
        a, b = scene.add_body(mesh, pose=moved(0.0)), scene.add_body(mesh, pose=moved(0.25))
        before = scene.step().contacts[0].volume
        assert old.stop(60) == 0
        wait_until(lambda: client._link.address == heir.stream, "the successor")
        assert scene.step().contacts[0].volume == before
        old.start()
        assert heir.stop(60) == 0  # it names nobody, but the client knows where it came from
        assert scene.step(poses={b: moved(0.25)}).contacts[0].volume == before


def test_the_server_stays_until_its_clients_have_gone(pair):
    """What a client has not read is lost with its connection, the successors too: the server waits for it, but not for ever."""
    old, _ = pair
    raw = Raw(old.stream)
    began = time.monotonic()
    old.process.send_signal(signal.SIGTERM)
    told = raw.receive()
    assert (told.kind, ErrorCode(told.body["code"]).name, told.request) == ("Error", "SHUTTING_DOWN", 0)
    assert old.wait(60) == 0
    assert time.monotonic() - began >= 2  # seconds that it lingers: this client does not go
    raw.close()


def test_a_file_names_the_successor_when_it_comes_to_that(make_server, tmp_path, calm):
    """Several addresses: the successor is one more, and takes its share."""
    path = tmp_path / "successors"
    old = make_server("--successor", f"file:{path}")
    with contactd.connect([old.stream], timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)
        heir = make_server()
        path.write_text(f"# who comes after\n{heir.stream}  # the new machine\n")
        thread = threading.Thread(target=lambda: old.stop(60))
        assert load.run(thread.start, 20) == calm
        thread.join()

        def has_moved() -> bool:
            facts = {s["address"]: s for s in client.servers()}
            return facts[heir.stream]["scenes"] == 6 and not facts[old.stream]["up"]

        wait_until(has_moved, "a client that has moved")


def test_successors_that_are_dead_or_none(make_server, tmp_path, calm):
    """The client tries one after the other, and comes back where it was."""
    path = tmp_path / "successors"
    old = make_server("--successor", f"tcp://127.0.0.1:{free_port()}", "--successor", f"tcp://127.0.0.1:{free_port()}")
    with contactd.connect(old.stream, timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)
        assert load.run(old.restart, 20) == calm
    astray = make_server("--successor", f"file:{path}")
    path.write_text("mailto:someone\n")
    assert astray.stop() == 0 and 'mailto:someone" is not an address' in astray.logs()
    done = subprocess.run([BUILD / "contactd", "--successor", "127.0.0.1:5555"], capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 2 and '"127.0.0.1:5555" is not an address' in done.stdout + done.stderr


def test_the_c_client_moves_under_load(pair, tmp_path):
    old, heir = pair
    first, steps = 20, SLACK + 30
    calm = settle(tmp_path, heir.stream, steps)

    def drain() -> None:
        assert old.stop(60) == 0

    assert settle(tmp_path, old.stream, steps, drain, (first,)) == calm


def test_an_idle_c_client_moves_too(pair, tmp_path):
    """Between calls it does nothing: it finds the word of the old server when it has ended."""
    old, heir = pair
    source, program, mesh = tmp_path / "idle.c", tmp_path / "idle", tmp_path / "box.obj"
    vertices, triangles = UNIT_BOX
    mesh.write_text("".join(f"v {x} {y} {z}\n" for x, y, z in vertices) +
                    "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in triangles))
    source.write_text(PROGRAM)
    subprocess.run([*CC, "-o", program, source, f"-I{BUILD / 'include' / 'contactd'}", f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-lcontactd"],
                   check=True)
    process = subprocess.Popen([program, old.stream, str(int(TIMEOUT * 1000)), mesh], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def step() -> str:
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    before = step()
    assert float(before) == pytest.approx(0.75, rel=0.02)
    assert old.stop(60) == 0
    assert step() == before, process.stderr.read()
    out, err = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 0, err
