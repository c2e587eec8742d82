"""Steps that their client takes back: they end on the server, and nothing is changed."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

import contactd
from conftest import SLOW, wait_until
from contactd import errors
from contactd._state import Request
from geometry import UNIT_BOX, icosphere, moved

PATIENT = 60 * SLOW


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        yield client


def long_scene(client) -> contactd.Scene:
    """A step of it takes minutes."""
    scene = client.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20, max_step_time=1000)
    ball = client.register_mesh(*icosphere(1.0, 4))
    for k in range(40):
        scene.add_body(ball, moved(0.01 * k, 0.002 * k))
    return scene


def wait_until_it_runs(future) -> None:
    while not future.running():
        time.sleep(0.01)
    time.sleep(0.3)


def test_a_running_step(client):
    scene = long_scene(client)
    future = scene.submit()
    behind = scene.submit()
    wait_until_it_runs(future)
    assert not future.cancel()
    with pytest.raises(errors.CancelledError, match="nothing was changed"):
        future.result()
    assert not behind.cancel()
    with pytest.raises(errors.CancelledError):
        behind.result()
    assert client.ping() > 0
    scene.configure(method="exact")
    for body in scene.bodies[2:]:
        scene.remove_body(body)
    assert len(scene.step()) == 1  # the numbers go on


def cancel_a_task(scene):
    """One that awaits a step, while it is computed."""

    async def work() -> None:
        task = asyncio.ensure_future(scene.step_async())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_a_running_step_in_this_process(engine):
    scene = long_scene(engine)
    future, behind = scene.submit(), scene.submit()
    wait_until_it_runs(future)
    assert behind.cancel() and not future.cancel()
    with pytest.raises(errors.CancelledError, match="nothing was changed"):
        future.result()
    cancel_a_task(scene)
    scene.configure(method="exact")  # which waits for what was submitted
    for body in scene.bodies[2:]:
        scene.remove_body(body)
    assert len(scene.submit().result()) == len(scene.step()) == 1


def test_what_is_done_or_not_known(client):
    scene = client.open_scene(method="exact")
    box = client.register_mesh(*UNIT_BOX)
    for shift in (0, 0.5):
        scene.add_body(box, moved(shift))
    future = scene.submit()
    assert len(future.result()) == 1
    assert not future.cancel() and len(future.result()) == 1
    for number in (0, 1, 2**64 - 1):
        client._link.call(Request("Cancel", lambda n=number: ({"request": n}, None), timeout=PATIENT))
    assert len(scene.step()) == 1


def test_another_connection_cannot(client, server):
    """Numbers are a connection's own."""
    scene = client.open_scene(method="exact")
    box = client.register_mesh(*UNIT_BOX)
    for shift in (0, 0.5):
        scene.add_body(box, moved(shift))
    with contactd.connect(server.stream, timeout=PATIENT) as other:
        for number in range(1, 60):
            other._link.submit(Request("Cancel", lambda n=number: ({"request": n}, None), timeout=PATIENT))
        futures = [scene.submit(poses={scene.bodies[1]: moved(0.01 * k)}) for k in range(1, 9)]
        assert all(len(future.result()) == 1 for future in futures)


def test_a_task(client):
    scene = long_scene(client)
    cancel_a_task(scene)
    began = time.monotonic()
    with pytest.raises(errors.CancelledError):  # it comes behind the one that was ended, and begins
        future = scene.submit()
        wait_until_it_runs(future)
        future.cancel()
        future.result()
    assert time.monotonic() - began < PATIENT


def test_many_scenes(client):
    """All that has not ended."""
    scenes = [long_scene(client)]
    done: list[np.ndarray] = []
    request = Request("StepMany", lambda: ({"scenes": [scenes[0].id], "sequences": [1]}, None), done.append, timeout=PATIENT)
    client._link.submit(request)
    (number,) = wait_until(lambda: [n for n, flying in list(client._link._tables.flying.items()) if flying is request],
                           "the message on its way")
    client._link.call(Request("Cancel", lambda: ({"request": number}, None), timeout=PATIENT))
    request.future.result()
    (answer,) = done
    assert answer.kind == "ManyResult" and answer.body["errors"][0]["error"]["code"] == errors.ErrorCode.CANCELLED
    assert answer.body["errors"][0]["is_answer"]
