"""What nobody refers to any more is freed at once: it does not wait until Python looks for cycles, which may be much later."""

from __future__ import annotations

import concurrent.futures
import gc
import time
import weakref

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, PATIENCE
from geometry import UNIT_BOX, moved


@pytest.fixture(autouse=True)
def no_cycles():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["server", "engine"])
def make(request, monkeypatch):
    if request.param == "server":
        address = request.getfixturevalue("server").stream
        return lambda: contactd.connect(address, timeout=PATIENCE)
    if INSTRUMENTED:
        pytest.skip("Python is not instrumented, and cannot load a library that is")
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    return lambda: contactd.Engine(threads=1, backend="cpu", timeout=PATIENCE)


def boxes(client) -> contactd.Scene:
    scene = client.open_scene(method="exact")
    scene.add_bodies(client.register_mesh(*UNIT_BOX), [np.eye(4), moved(0.5)])
    return scene


def cancelled(client) -> None:
    future = boxes(client).submit()
    future.cancel()
    concurrent.futures.wait([future])  # an error that is raised here keeps this frame, and with it the future that has the error


def goes(gone: weakref.ref) -> bool:
    """Another thread may have it a moment longer."""
    until = time.monotonic() + PATIENCE
    while gone() is not None and time.monotonic() < until:
        time.sleep(0.001)
    return gone() is None


USES = {
    "scene": lambda client: client.open_scene().close(),
    "bodies": lambda client: boxes(client),
    "step": lambda client: boxes(client).step().contacts[0].volume,
    "submit": lambda client: boxes(client).submit().result().volumes,
    "cancel": cancelled,
    "copies": lambda client: client.open_scenes(2, boxes(client)),
    "many": lambda client: client.step_many(client.open_scenes(2, boxes(client))).volumes,
    "overlap": lambda client: client.overlap(*[client.register_mesh(*UNIT_BOX)] * 2),
}


@pytest.mark.parametrize("use", USES)
def test_a_client_goes_with_its_last_reference(make, use):
    client = make()
    USES[use](client)
    client.ping()  # whatever was on its way has come
    gone = weakref.ref(client)
    del client
    assert goes(gone)


@pytest.mark.parametrize("how", ["step", "submit"])
def test_a_result_goes_although_its_contacts_were_looked_at(make, how):
    with make() as client:
        scene = boxes(client)
        result = scene.step() if how == "step" else scene.submit().result()
        contact = result.contacts[0]
        assert contact.volume == result.volumes[0] and result.contacts[0] is contact
        client.ping()
        gone, its = weakref.ref(result), weakref.ref(contact._result)
        del result
        assert goes(gone) and contact.bodies == tuple(scene.bodies)
        del contact
        assert goes(its)
