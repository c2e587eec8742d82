"""Numbers that contacts and points keep from step to step: on a server, in this process, in many scenes, and over HTTP."""

from __future__ import annotations

import pickle

import contactd
import numpy as np
import pytest
from contactd import errors
from geometry import UNIT_BOX, moved
from http_api import Api

def pile(client, **settings):
    """Two boxes 1 cm deep in a floor."""
    scene = client.open_scene(**settings)
    scene.add_half_space((0, 0, 1), 0.0)
    box = client.register_mesh(*UNIT_BOX)
    return scene, [scene.add_body(box, moved(2 * k, 0, 0.49)) for k in range(2)]


def lifted(height: float) -> np.ndarray:
    return moved(0, 0, 0.49 + height)


def test_begins_persists_ends(server_or_engine):
    scene, (box, _) = pile(server_or_engine)
    first = scene.step(want="ids")
    assert first.ids.tolist() == first.begun_ids.tolist() == [1, 2] and not len(first.ended_ids)
    assert [contact.id for contact in first.contacts] == [1, 2] and all(contact.is_new for contact in first.contacts)
    assert first.to_dict()["ids"].tolist() == [1, 2]
    still = scene.step(poses={box: lifted(-0.001)}, want=("ids", "gradient"))
    assert still.ids.tolist() == [1, 2] and not still.are_new.any() and not len(still.ended_ids)
    scene.step(poses={box: lifted(3)})  # wants none, and is not compared with
    gone = scene.step(want="ids")
    assert gone.ids.tolist() == [2] and gone.ended_ids.tolist() == [1] and not len(gone.begun_ids)
    again = scene.step(poses={box: lifted(0)}, want="ids")
    assert again.ids.tolist() == [3, 2] and again.begun_ids.tolist() == [3]
    kept = pickle.loads(pickle.dumps(gone))
    assert kept.ids.tolist() == [2] and kept.ended_ids.tolist() == [1]


def test_without_contacts(server_or_engine):
    """Columns are of the same kinds of numbers as where there are some, so that flags choose among numbers."""
    scene, boxes = pile(server_or_engine)
    (copy,) = server_or_engine.open_scenes(1, scene)
    first = scene.step(want="ids")
    up = [moved(4 * k, 0, 3) for k in range(2)]
    empty = scene.step(poses=dict(zip(boxes, up)), want="ids")
    assert empty.ended_ids.tolist() == [1, 2] and empty.begun_ids.tolist() == [] and empty.ids[empty.are_new].shape == (0,)
    many = server_or_engine.step_many([copy], ([1, 2], np.array([up])), want="ids")
    for name in ("ids", "are_new", "are_nested", "indices", "volumes", "generalized_gradients"):
        for result in (empty, many):
            column = getattr(result, name)
            assert column.dtype == getattr(first, name).dtype and column.shape == (0, *getattr(first, name).shape[1:]), name


def test_not_asked_for(server_or_engine):
    scene, _ = pile(server_or_engine)
    result = scene.step()
    for read in (lambda: result.ids, lambda: result.ended_ids, lambda: result.begun_ids, lambda: result.contacts[0].id,
                 lambda: result.contacts[0].is_new):
        with pytest.raises(errors.InvalidArgumentError, match="ids.*not asked for|not asked for.*ids"):
            read()
    assert "ids" not in result.to_dict()


def test_points(server_or_engine):
    scene, (box, _) = pile(server_or_engine, max_points=4)
    corners = {}
    for k in range(4):
        result = scene.step(poses={box: moved(0.3 * k, 0, 0.49)}, want="ids")
        points = result.contacts[0].points
        assert len(set(points.id)) == 4 and set(points.id).isdisjoint(result.ids)
        assert np.array_equal(result.points.id, np.concatenate([c.points.id for c in result.contacts]))
        own = {i: tuple(np.round(p - (0.3 * k, 0, 0), 4)) for i, p in zip(points.id.tolist(), points.position)}
        assert own == (corners or own)
        corners = own
    assert not scene.step().points.id.any()


def test_many_scenes(server_or_engine):
    client = server_or_engine
    template, _ = pile(client)
    scenes = [template, *client.open_scenes(2, template)]
    poses = np.tile(np.eye(4)[:3], (3, 2, 1, 1))
    poses[:, :, 2, 3] = 0.49
    poses[:, 1, 0, 3] = 2
    first = client.step_many(scenes, ([1, 2], poses), want="ids")
    assert first.ids.tolist() == [1, 2] * 3 and first.are_new.all()
    poses[1, 0, 2, 3] = 3
    second = client.step_many(scenes, ([1, 2], poses), want="ids")
    assert second.ids.tolist() == [1, 2, 2, 1, 2] and not second.are_new.any()
    assert scenes[1].step(want="ids").ids.tolist() == [2]


def test_over_http(server):
    api = Api(server.http)
    mesh = api.post("/v1/meshes", {"vertices": np.asarray(UNIT_BOX[0]).tolist(), "triangles": np.asarray(UNIT_BOX[1]).tolist()}, 200)["id"]
    scene = f"/v1/scenes/{api.post('/v1/scenes', {'method': 'exact', 'max_points': 4})['id']}"
    api.post(f"{scene}/bodies", {"kind": "half_space", "normal": [0, 0, 1], "offset": 0})
    bodies = [api.post(f"{scene}/bodies", {"mesh": mesh, "pose": moved(2 * k, 0, 0.49)[:3].ravel().tolist()})["id"] for k in range(2)]
    answer = api.post(f"{scene}/step", {"want": ["ids"]}, status=200)
    assert [(c["id"], c["is_new"]) for c in answer["contacts"]] == [(1, True), (2, True)] and answer["ended_ids"] == []
    assert [p["id"] for p in answer["contacts"][0]["points"]] == [3, 4, 5, 6]
    up = {"body": bodies[0], "pose": moved(0, 0, 9)[:3].ravel().tolist()}
    answer = api.post(f"{scene}/step", {"want": ["ids"], "updates": [up]}, status=200)
    assert [(c["id"], c["is_new"]) for c in answer["contacts"]] == [(2, False)] and answer["ended_ids"] == [1]
    assert "ended_ids" not in api.post(f"{scene}/step", {}, status=200)
