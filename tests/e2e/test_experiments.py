"""Short forms of the experiments in tests/experiments (make experiments): what the method exact promises beside rays."""

from __future__ import annotations

import sys

import contactd
import pytest
from conftest import ROOT, SLOW
from geometry import UNIT_BOX, moved

sys.path.insert(0, str(ROOT / "tests" / "experiments"))

import cost  # noqa: E402
import energy  # noqa: E402
import rest  # noqa: E402
import shallow  # noqa: E402
import smoothness  # noqa: E402


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=20 * SLOW) as client:
        yield client


def test_forces_are_smooth(client):
    ripple = {name: smoothness.ripple(*smoothness.slide(client, smoothness.METHODS[name], 500))
              for name in ("exact", "LDI 64²")}
    assert ripple["exact"] < 1e-4 and ripple["exact"] < ripple["LDI 64²"] / 100


def test_a_cube_comes_to_rest(client):
    left = {name: rest.settle(client, rest.METHODS[name], 2500)[-500:].mean() for name in ("exact", "LDI 64²")}
    assert left["exact"] < left["LDI 64²"] / 100


def test_shallow_contacts(client):
    data = shallow.measure(client, orientations=2)
    assert data["exact"]["volume"].max() < 1e-5 and data["exact"]["force"].max() < 1e-5
    assert data["exact"]["force"][0] < data["LDI 64²"]["force"][0] / 10


def test_the_reference_of_shallow_contacts():
    vertices, triangles = UNIT_BOX
    volume, area = shallow.below_plane(vertices @ moved()[:3, :3] + [0, 0, 0.25], triangles)
    assert volume == pytest.approx(0.25) and area == pytest.approx(1)


def test_energy_returns(client):
    change = {name: abs(e[-1, 0] / e[0, 0] - 1) for name in ("exact", "LDI 64²")
              for e in (energy.collide(client, energy.METHODS[name], 1500),) if e[:, 1].any() and not e[-1, 1]}
    assert change["exact"] < 1e-5 and change["exact"] < change["LDI 64²"] / 10


def test_costs_are_measured(client):
    data = cost.measure(client, most=4000, level=3, repeats=2)
    assert all((of[name] > 0).all() for of in data.values() for name in cost.METHODS)
    assert (data["crossings"]["crossings"][1:] >= data["crossings"]["crossings"][:-1]).all()
    assert data["crossings"]["crossings"][-1] > 1000
    assert len(cost.numbers(data)) == 12
