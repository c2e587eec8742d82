"""The comparison of make compare: its page is what its measurements say, its scenes tell right from wrong, and it runs with the simulators
that are here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW

if INSTRUMENTED:
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tests" / "compare"))

import measure  # noqa: E402
import page  # noqa: E402
from worlds import mass_properties, worlds  # noqa: E402


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))


def test_the_page_is_what_was_measured():
    data = json.loads((ROOT / "docs" / "compare.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "compare.md").read_text(encoding="utf-8") == page.render(data)
    assert json.loads(page.text_of(data)) == data
    assert {run["scene"] for run in data["runs"]} == set(worlds()) and {"MuJoCo", "Drake"} <= {run["simulator"] for run in data["runs"]}
    for name in worlds():
        assert (ROOT / "docs" / "images" / f"compare-{name}.png").exists()


def told(simulator, contacts, **values) -> dict:
    return {"scene": "s", "simulator": simulator, "contacts": contacts, "version": simulator + " 1", "right": True, "said": {"height, mm": 1.0},
            "ended": "completed", "nested": False, "dt": 2e-3, "ms_a_step": 1.0, "processor_ms_a_step": 1.0, "prepare_s": 0.5, "deepest": 1e-4,
            "deepest_at_end": 1e-5, "speed_at_end": 1e-3} | values


def test_a_peer_that_is_better_is_named():
    world = {"name": "s", "title": "S", "seconds": 1.0, "right": "1 mm", "rests": True}
    runs = [told("Peer", "hull", right=False, processor_ms_a_step=1e-3), told("Peer", "SDF", processor_ms_a_step=0.5, deepest=5e-5),
            told("Peer", "contactd", deepest_at_end=1e-6)]
    text = page.section(world, runs)
    assert "- the least time: Peer, SDF, 0.25 s of processors for a second. contactd's best is Peer, contactd, 0.5 s of processors for a second" in text
    assert "- the least deep: Peer, SDF, 50 µm. contactd's best is Peer, contactd, 100 µm" in text
    assert "- the least deep at the end: Peer, contactd, 1 µm\n" in text
    assert "| Peer, hull | no | 1 |" in text
    runs[2]["right"] = False
    assert "none with contactd's contacts came out right" in page.section(world, runs)
    assert page.verdicts(world, runs[:1]) == ["None came out right."]
    head, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in (head, rule, *rows, page.row({"simulator": "a", "contacts": "b", "ended": "c"}, []))}) == 1


def track(world, last) -> tuple[np.ndarray, np.ndarray]:
    """Bodies that go from where they begin to `last` (b, 7), and stay."""
    first = np.array([[*body.at, 0, 0, 0, 1.0] for body in world.bodies])
    times = np.linspace(0, world.seconds, 101)
    share = np.clip(2 * times / world.seconds, 0, 1)[:, None, None]
    return times, (1 - share) * first + share * last


@pytest.mark.parametrize("name", worlds())
def test_scenes_begin_apart(name):
    """So that what is deep comes of the simulation."""
    world = worlds()[name]
    start = np.array([[*body.at, 0, 0, 0, 1.0] for body in world.bodies])
    assert measure.judged(world, np.array([0.0, 1.0]), np.stack([start, start])).worst is None


def test_scenes_tell_right_from_wrong():
    still = [0, 0, 0, 1.0]
    for name, heights, right in (("crates", (0.05, 0.15, 0.25), True), ("crates", (0.05, 0.15, 0.24), False),
                                 ("bowls", (0, 0.0295, 0.059), True), ("bowls", (0, 0.059, 0.118), False)):
        world = worlds()[name]
        times, poses = track(world, np.array([[0, 0, z, *still] for z in heights]))
        assert world.outcome(times, poses)[1] == right, (name, heights)
        assert measure.fastest_at_the_end(world, times, poses) == 0


@pytest.mark.parametrize("share, turns, aside, right", [(1.0, 1.0, 0.0, True), (0.5, 1.0, 0.0, False), (1.0, 0.0, 0.0, False), (1.0, 1.0, 1e-3, False)])
def test_a_nut_has_to_turn_as_it_falls(share, turns, aside, right):
    world = worlds()["nut"]
    times = np.linspace(0, world.seconds, 200)
    pitch = 6.4e-3
    mass, _, inertia = mass_properties(world.bodies[1])
    fallen = share * -9.81 / (1 + inertia[2, 2] / mass * (2 * np.pi / pitch) ** 2) * times**2 / 2
    half = turns * np.pi * fallen / pitch
    nut = np.stack([np.full_like(times, aside), 0 * times, fallen, 0 * times, 0 * times, np.sin(half), np.cos(half)], 1)
    bolt = np.tile([0.0, 0, 0, 0, 0, 0, 1], (len(times), 1))
    said, is_right = world.outcome(times, np.stack([bolt, nut], 1))
    assert is_right == right and said["fallen, of the closed form without friction"] == pytest.approx(share)
    assert said["as its turning says, mm"] == pytest.approx(turns * said["fallen, mm"])


def simulator(step, poses) -> types.SimpleNamespace:
    return types.SimpleNamespace(NAME="Fake", version=lambda: "Fake 1", prepare=lambda world, contacts: (2e-3, step, poses))


def test_runs_that_go_wrong_say_so():
    world = worlds()["crates"]
    rest = np.array([[*body.at, 0, 0, 0, 1.0] for body in world.bodies])
    state = [rest.copy()]

    def raises():
        raise RuntimeError("the solver failed\nand more")

    def explodes():
        state[0] = 10 * state[0]

    assert measure.simulate(world, simulator(raises, lambda: rest), "hull", 60)["ended"] == "stopped: the solver failed"
    run = measure.simulate(world, simulator(explodes, lambda: state[0]), "hull", 60)
    assert run["ended"] == "blew up" and np.abs(run["poses"]).max() < 100
    run = measure.simulate(world, simulator(lambda: None, lambda: rest), "hull", 0.0)
    assert run["ended"] == "stopped after 0 s" and run["steps"] == 1
    run = measure.simulate(world, simulator(lambda: None, lambda: rest), "hull", 1e9)
    assert run["ended"] == "completed" and run["steps"] == 300
    report = measure.judged(world, run["times"], run["poses"])  # the crates begin a tenth of a millimetre above each other
    assert len(report.times) == measure.FRAMES and report.worst is None
    assert measure.judged(world, run["times"], run["poses"] - [0, 0, 2e-4, 0, 0, 0, 0]).worst.bodies == ("b0", "floor")


def compare(tmp_path, *arguments) -> dict:
    done = subprocess.run([sys.executable, ROOT / "tests" / "compare" / "run.py", "--build", BUILD, "--out", tmp_path, *arguments],
                          capture_output=True, text=True, encoding="utf-8", timeout=200 * SLOW, env=os.environ | {"PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "compare.json").read_text(encoding="utf-8"))


def test_it_runs_with_mujoco(tmp_path):
    pytest.importorskip("mujoco", reason="pip install mujoco runs these", exc_type=ImportError)
    pytest.importorskip("matplotlib")
    data = compare(tmp_path, "--simulators", "mujoco", "--scenes", "crates", "--seconds", "0.05", "--most", "1000")
    assert [(run["contacts"], run["ended"], run["steps"]) for run in data["runs"]] == [(c, "completed", 25) for c in ("hull", "SDF", "contactd", "contactd, points")]
    assert all(0 < run["deepest"] < 1e-3 and run["ms_a_step"] > 0 for run in data["runs"])
    assert (tmp_path / "compare.md").read_text(encoding="utf-8") == page.render(data)
    assert (tmp_path / "images" / "compare-crates.png").read_bytes()[:4] == b"\x89PNG"


def test_it_runs_with_drake(tmp_path):
    pytest.importorskip("pydrake", reason="pip install drake runs these", exc_type=ImportError)
    pytest.importorskip("gmsh", reason="pip install gmsh runs these", exc_type=(ImportError, OSError))
    pytest.importorskip("matplotlib")
    data = compare(tmp_path, "--simulators", "drake", "--scenes", "crates", "--seconds", "0.03", "--most", "1000")
    assert [(run["contacts"], run["ended"], run["steps"]) for run in data["runs"]] == [
        ("hull", "completed", 15), ("hydroelastic", "completed", 15), ("contactd", "completed", 60)]
    assert all(0 < run["deepest"] < 2e-3 for run in data["runs"])


def test_tetrahedra_fill_the_mesh():
    pytest.importorskip("pydrake", reason="pip install drake runs these", exc_type=ImportError)
    pytest.importorskip("gmsh", reason="pip install gmsh runs these", exc_type=(ImportError, OSError))
    import by_drake
    from crates import crate

    vertices, triangles = crate()
    lines = by_drake.tetrahedra((vertices, triangles)).splitlines()
    n = int(lines[4].split()[1])
    points = np.array([line.split() for line in lines[5:5 + n]], float)
    cells = np.array([line.split()[1:] for line in lines[6 + n:] if line.startswith("4 ")], int)
    volumes = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) / 6
    a, b, c = vertices[triangles].transpose(1, 0, 2)
    assert np.abs(volumes).sum() == pytest.approx(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6, rel=1e-9)
