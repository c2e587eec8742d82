"""Answers that take long to encode are encoded where they are computed: they say the same as small ones."""

from __future__ import annotations

import contactd
import numpy as np
import pytest
from conftest import SLOW
from geometry import UNIT_BOX, moved

BOXES = 600  # in a row: as many contacts but one


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        yield client


def test_many_contacts(client):
    mesh = client.register_mesh(*UNIT_BOX)
    scene, pair = client.open_scene(resolution=8), client.open_scene(resolution=8)
    bodies = [scene.add_body(mesh, pose=moved(0.75 * i)) for i in range(BOXES)]
    a, b = pair.add_body(mesh, pose=moved()), pair.add_body(mesh, pose=moved(0.75))
    (alone,) = pair.step().contacts
    assert alone.volume == pytest.approx(0.25, rel=1e-6)
    for step in range(2):
        contacts = scene.step(want="all" if step else "frame").contacts
        assert len(contacts) == BOXES - 1
        for contact, one, next_one in zip(contacts, bodies, bodies[1:]):
            assert contact.bodies == (one, next_one)
            assert contact.volume == pytest.approx(alone.volume, rel=1e-5)
            assert contact.normal == pytest.approx(alone.normal, abs=1e-5)
            pushed = alone.generalized_gradient(b)[:3]
            assert contact.generalized_gradient(next_one)[:3] == pytest.approx(pushed, abs=1e-4)
            if step:
                assert contact.gradient(one)[1].sum(0) == pytest.approx(alone.gradient(a)[1].sum(0), abs=1e-4)


def test_many_spans(client):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(resolution=200)
    scene.add_body(mesh), scene.add_body(mesh, pose=moved(0.25, 0.5, 0.75))
    (contact,) = scene.step(want=("frame", "spans")).contacts
    assert contact.volume == pytest.approx(0.75 * 0.5 * 0.25, rel=1e-6)
    assert len(contact.spans) == 3 * 200 * 200
    for axis, length in enumerate((0.75, 0.5, 0.25)):
        ends = contact.spans[contact.span_axes == axis]
        assert len(ends) == 200 * 200
        assert ends[:, 1, axis] - ends[:, 0, axis] == pytest.approx(np.full(len(ends), length), abs=1e-5)
