"""Short forms of the papers' experiments in tests/experiments (make experiments)."""

from __future__ import annotations

import json
import sys

import contactd
import numpy as np
import pytest
from conftest import ROOT, SLOW

sys.path[:0] = [str(ROOT / "client_py" / "examples"), str(ROOT / "tests" / "experiments")]

import contact_levels  # noqa: E402
import coulomb  # noqa: E402
import deep_start  # noqa: E402
import directions  # noqa: E402
import edge  # noqa: E402
import image_resolution  # noqa: E402
import interruption  # noqa: E402
import momentum  # noqa: E402
import nut  # noqa: E402
import obstacle  # noqa: E402
import one_solve  # noqa: E402
import phases  # noqa: E402
import precision  # noqa: E402
import responses  # noqa: E402
import rings  # noqa: E402
import run  # noqa: E402
import scene_sizes  # noqa: E402
import scenes  # noqa: E402
import snake  # noqa: E402
import traverse  # noqa: E402
import turning  # noqa: E402
import wheels  # noqa: E402
from shapes import volume  # noqa: E402

METHODS = {"exact": {"method": "exact"}, "ldi": {"method": "ldi", "resolution": 64}}


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=20 * SLOW) as client:
        yield client


def test_forces_on_bodies_that_traverse_slabs(client):
    data = traverse.measure(client, steps=57)
    for case, of in data.items():
        error = {name: of["error, " + name] for name in traverse.METHODS}
        assert error["LDI 64²"] < 0.02 and error["exact"] < (2e-3 if "sphere" in case else 1e-6)
        assert of["exact"].min() < 0 < of["exact"].max()
    inside = (data["sphere, thick"]["way"] > 0.51) & (data["sphere, thick"]["way"] < 0.99)
    assert inside.sum() > 5
    for shape in ("sphere", "cube"):
        assert not data[f"{shape}, thick"]["exact"][inside].any()
        thin = data[f"{shape}, thin"]["exact"]
        assert thin == pytest.approx(-thin[::-1], abs=2e-3 * thin.max())


def test_a_cube_balances_on_an_edge(client):
    for name, error in (("exact", 1e-3), ("LDI 256²", 1e-2)):
        tilt, depth = edge.balance(client, edge.METHODS[name], 300)
        assert len(tilt) == 300 and tilt.max() < 0.01
        assert depth[-100:].mean() == pytest.approx(edge.DEPTH, rel=error)


def test_linked_rings_do_not_diverge(client):
    settings = {"2²": {"resolution": 2}, "32²": {"resolution": 32}, "exact": {"method": "exact"}}
    energy = {name: rings.hang(client, of, 120, around=48) for name, of in settings.items()}
    assert all(e.max() < 5.0 for e in energy.values())  # J; the ring weighs 200 N and swings by centimetres
    assert np.abs(energy["32²"] - energy["exact"]).max() < 0.1 * energy["exact"].max()


def test_phases_are_measured(client):
    data = phases.measure(client, steps=30)
    numbers = phases.numbers(data)
    assert len(numbers) == 36 and all(ms > 0 for ms in numbers.values())
    assert set(phases.PAPER) <= set(numbers)
    assert all(of["total"] > of["simulation"] for of in data.values())


@pytest.mark.parametrize("method", METHODS)
def test_one_solve_leaves_what_the_closed_form_says(client, method):
    data = one_solve.measure(client, solves=4, cells=(), **METHODS[method])
    assert data["balls"] == pytest.approx(data["balls, closed form"], abs=1e-3 if method == "exact" else 5e-3)
    assert data["cube in a slab"][1] < 1e-6
    assert (np.diff(data["bumpy bodies"]) < 0).all() and data["bumpy bodies"][4] < 0.02


def test_cells_leave_less_after_one_solve(client):
    data = one_solve.measure(client, solves=1, cells=(0.8, 0.2))
    divided = [left[1] for name, left in data.items() if name.endswith("cells")]
    assert len(divided) == 2
    assert divided[1] < divided[0] / 4 and divided[0] < data["balls"][1] / 3


def test_a_snake_bends_by_cells_and_spins_by_one_volume(client):
    data = snake.measure(client, steps=15, elements=12, counts=(1, 6))
    tail = {name: snake.sorted_along(np.asarray(of["places"]))[0] for name, of in data.items()}
    head = {name: snake.sorted_along(np.asarray(of["places"]))[-1] for name, of in data.items()}
    assert all(at > 0 for at in head.values())
    assert tail["1 cells"] < -0.1 * head["1 cells"]  # it spins about its middle, and its tail goes the other way
    assert abs(tail["6 cells"]) < 0.02 * head["6 cells"] and abs(tail["reference"]) < 0.02 * head["reference"]
    assert data["6 cells"]["largest"] < data["1 cells"]["largest"] / 10
    assert data["1 cells"]["contacts"] == 1 and data["6 cells"]["contacts"] >= 6


def test_the_closed_form_of_a_lens():
    assert one_solve.lens(0.0) == pytest.approx((4 / 3 * np.pi, np.pi))
    assert one_solve.lens(2.0) == (0, 0)
    slope = (one_solve.lens(1.2 + 1e-6)[0] - one_solve.lens(1.2 - 1e-6)[0]) / 2e-6
    assert slope == pytest.approx(-one_solve.lens(1.2)[1])


@pytest.mark.parametrize("method", METHODS)
def test_a_deep_start_gains_no_energy(client, method):
    data = deep_start.measure(client, steps=10, **METHODS[method])
    for of in data.values():
        assert of["contacts"] >= 6 and of["gained"] < 1e-14  # rounding
        assert of["volume"][1] < 0.02 * of["volume"][0]
    assert not data["rigid"]["energy"].any()


@pytest.mark.parametrize("name", momentum.METHODS)
def test_momentum_is_kept(client, name):
    linear, angular, exchanged = momentum.rub(client, momentum.METHODS[name], 400)
    assert exchanged > 1
    assert np.abs(linear).max() < 1e-14 * exchanged
    assert np.abs(angular).max() < 0.05
    linear, angular, exchanged = momentum.rub(client, momentum.METHODS[name], 200, friction=0.0, corrections=0)
    assert exchanged > 0.5
    assert np.abs(angular).max() < 1e-11


@pytest.mark.parametrize("name", coulomb.METHODS)
def test_a_block_sticks_below_the_friction_angle_and_slides_above(client, name):
    for friction, direction in ((0.5, 0.7), (1.0, 0.0)):
        angle = np.arctan(friction)
        settings = coulomb.METHODS[name]
        assert abs(coulomb.slide(client, settings, friction, 0.98 * angle, direction, 60)[0]) < 1e-3
        beyond = 1.02 * angle
        speed, _ = coulomb.slide(client, settings, friction, beyond, direction, 60)
        expected = coulomb.G * (np.sin(beyond) - friction * np.cos(beyond)) * 60 * coulomb.H
        assert speed == pytest.approx(expected, rel=0.2)


def test_a_soft_ball_is_lifted_by_friction(client):
    bodies = scenes.grasp(level=2)
    of = scenes.run(client, bodies, 60, {}, scenes.move_fingers)
    assert of["contacts"] >= 2
    assert bodies[1].soft.nodes[:, 2].mean() > 0.05 + 0.8 * 0.1 * 35 * scenes.H


def test_a_stack_of_soft_bodies_holds(client):
    bodies = scenes.stack(8, triangles=500)
    of = scenes.run(client, bodies, 16, {})
    assert of["contacts"] >= 8
    lowest = [body.update()[:, 2].min() for body in bodies[5:]]
    assert min(lowest[:4]) > -0.02 and min(lowest[4:]) > 0.2


def test_errors_are_within_the_tolerance(client):
    data = precision.measure(client, finest=1e-2, pairs=40, real="")
    for name, rows in data["achieved"].items():
        if name == "tolerance":
            continue
        error, bound, rays, reached = rows
        assert reached.all() and (bound <= data["achieved"]["tolerance"]).all()
        assert (error < (bound if "strict" in name else 2 * bound)).all()
        assert (np.diff(rays) > 0).all()
        assert error[-1] > 1e-6 or name.startswith("cube")  # what is compared is not the truth itself
    for views in ("", ", optimised views"):
        strict, published = data["random"][f"strict{views}"], data["random"][f"published{views}"]
        assert len(strict["ratios"]) > 20 and strict["ratios"].max() <= 1 and strict["missed"] == 0
        assert (published["ratios"] > 1).mean() < 0.05
    assert not np.array_equal(*(data["random"][f"strict{views}"]["ratios"] for views in ("", ", optimised views")))


def test_a_bound_that_is_not_reached_is_told(client):
    """Faces parallel to the rays, whose bound falls slowest."""
    mesh = client.register_mesh(*precision.polyhedra()["icosahedron"])
    scene = client.open_scene(tolerance_rel=1e-3, strict=True, ray_budget=2000)
    scene.add_body(mesh, pose=np.eye(4))
    scene.add_body(mesh, pose=precision.at(0.25, 0.13, 0.1, precision.rotation(np.array([0.4, 0.7, 0.2]))))
    result = scene.step(want="volume")
    assert result.ended == "ray_budget" and result.rays <= 2000
    assert result.contacts[0].error_bound > 1e-3 * result.contacts[0].volume
    scene.configure(ray_budget=0)
    result = scene.step(want="volume")
    assert result.ended == "completed" and result.rays < 200_000
    assert result.contacts[0].error_bound <= 1e-3 * result.contacts[0].volume


def test_refined_volumes_stay_within_the_tolerance(client):
    data = turning.measure(client, steps=13)
    for shape in turning.SHAPES:
        truth = data[shape]["exact"]["volume"]
        assert truth.min() > 0.15
        for way, of in ((way, data[shape][way]) for way in turning.WAYS):
            error = np.abs(of["volume"] - truth)
            assert (error <= of["bound"]).all()
            assert ("refined" in way) == bool(of["reached"].all())
            assert (of["bound"][of["reached"] > 0] <= turning.TOLERANCE).all()
        assert np.abs(data[shape]["1 tile"]["volume"] - truth).max() > turning.TOLERANCE
        assert np.abs(data[shape]["refined, strict"]["volume"] - truth).max() < turning.TOLERANCE / 5
        assert data[shape]["refined, strict"]["rays"].mean() > data[shape]["8 x 8 tiles"]["rays"].mean()
    assert data["cross"]["refined, strict"]["rays"].mean() > data["convex"]["refined, strict"]["rays"].mean()


def test_rays_hardly_depend_on_the_triangles_of_a_flat_face(client):
    data = image_resolution.measure(client, splits=3, tolerances=(0.1, 0.01))
    for name, of in data.items():
        assert np.isfinite(of["optimal, 0.01"]).all() and (of["optimal, 0.01"] > 0.99 * of["optimal, 0.1"]).all()
        assert of["optimal, 0.01"].max() < 3 * of["optimal, 0.01"].min()
        assert (of["optimal, 0.01"] < of["coarsening, 0.01"]).all() and (of["optimal, 0.01"] < of["no coarsening, 0.01"]).all()
        vertices, triangles = image_resolution.SHAPES[name]
        split = image_resolution.split_faces((vertices, triangles), 2)
        assert len(split[1]) == 16 * len(triangles)
        assert volume(split) == pytest.approx(volume((vertices, triangles)), rel=1e-12)


def test_optimised_directions_are_better_as_published(client):
    data = directions.measure(client, n=6)
    cylinder = data["cylinder, as published"]  # some turns have faces parallel to the rays
    assert cylinder["rays, optimised"].mean() < 0.5 * cylinder["rays"].mean()
    assert cylinder["rays, optimised"].max() < 0.2 * cylinder["rays"].max()
    for shape in directions.SHAPES:
        of = data[f"{shape}, strict"]
        assert of["rays"].max() < 0.5 * data[f"{shape}, as published"]["rays"].max()  # by the allocation
        for views in ("", ", optimised"):
            assert (of["error" + views] <= of["bound" + views]).all()
            assert (of["bound" + views] <= 1.01 * directions.TOLERANCE).all()
    turn = directions.turns(5)
    assert turn @ turn.transpose(0, 2, 1) == pytest.approx(np.broadcast_to(np.eye(3), turn.shape), abs=1e-12)


def test_times_of_scenes_are_measured(client):
    data = scene_sizes.measure(client, sizes=(8000,), repeats=1)
    ((name, of),) = data.items()
    assert name == "8k triangles" and of["reached"] == 1 and of["bound / volume"] <= scene_sizes.TOLERANCE
    assert of["raster and casting"] > 0 and of["rays"] > 1000
    assert {key.split(":")[0] for key in scene_sizes.PAPER} == {"332k triangles", "1200k triangles", "4400k triangles"}


def test_a_small_obstacle_is_felt(client):
    fronts = np.array([-0.005, 0.004, 0.012])
    felt = {name: obstacle.feel(client, settings, fronts) for name, settings in obstacle.METHODS.items()}
    inside = np.clip(fronts, 0, obstacle.WART)
    shared = obstacle.FLAT + inside * obstacle.WART**2
    assert felt["exact"]["volume"] == pytest.approx(shared, rel=1e-5)
    assert felt["exact"]["area"][1:] == pytest.approx(obstacle.WART**2, rel=1e-3) and felt["exact"]["area"][0] == 0
    ebpi = felt["ebpi"]
    assert (np.abs(ebpi["volume"] - shared) <= ebpi["bound"]).all() and (ebpi["bound"] <= 3e-6).all() and ebpi["reached"].all()
    assert ebpi["area"][1:] == pytest.approx(obstacle.WART**2, rel=0.5) and ebpi["area"][0] == 0
    assert not felt["LDI 8²"]["area"].any()
    stopped = obstacle.slide(client, obstacle.METHODS["exact"], obstacle.SPEED, obstacle.DT, 80)
    closed = obstacle.SPEED * (obstacle.MASS / obstacle.STIFFNESS) ** 0.5 / obstacle.WART**2
    assert stopped[:, 0].max() == pytest.approx(closed, rel=0.05)
    assert obstacle.slide(client, obstacle.METHODS["LDI 8²"], obstacle.SPEED, obstacle.DT, 80)[-1, 1] == obstacle.SPEED


def test_a_nut_unscrews(client):
    of = nut.unscrew(client, nut.METHODS["exact"], 48, 400)
    numbers = nut.numbers({"exact": of})
    assert numbers["exact: acceleration / closed form"] == pytest.approx(1, abs=0.1)
    assert numbers["exact: slip while it falls, mm"] < 0.5 and of["height"][-1] < -0.1
    assert of["volume"][-1] < 0.3 * of["volume"][0]
    first = {name: nut.unscrew(client, nut.METHODS[name], 24, 2) for name in ("exact", "ebpi")}
    assert first["ebpi"]["reached"].all()
    assert first["ebpi"]["volume"] == pytest.approx(first["exact"]["volume"], rel=0.1)
    assert first["ebpi"]["speed"] == pytest.approx(first["exact"]["speed"], rel=0.1)


def test_a_convex_wheel_rolls_further_than_a_concave_one(client):
    way = {}
    for name, bulge in wheels.WHEELS.items():
        of = wheels.roll(client, wheels.METHODS["exact"], bulge, 200)
        way[name] = of["way"][-1]
        assert of["energy"].max() <= of["energy"][0] * 1.02
    assert way["convex"] > way["slightly convex"] > way["concave"] > 0.5
    assert way["convex"] == pytest.approx(200 * wheels.H * wheels.SPEED, rel=0.01)
    assert way["concave"] == pytest.approx(wheels.law_of_corners(200)[-1], rel=0.2)


def test_weights_make_points_better(client):
    data = contact_levels.measure(client, contacts=150, scans=0)
    for of in data.values():
        assert of["exact"][0] < 0.05 and of["exact"][1] < 2e-3  # beside the closed forms
        for name in ("weighted", "plain", "force"):
            assert (of[name][-1] < 0.5 * of[name][0]).all()
    of = data["balls and boxes"]
    assert (np.diff(of["weighted"][:, 0]) < 0).all() and (np.diff(of["force"], axis=0) < 0).all()
    assert (of["weighted"] < of["plain"]).all() and (of["weighted"][3:, 0] < 0.8 * of["plain"][3:, 0]).all()
    assert (of["weighted"][1:, 0] < of["centres, plain"][1:, 0]).all()
    assert (np.diff(of["with points"]) >= 0).all() and of["with points"][-1] > 0.95


def test_responses_come_closer_with_each_level(client):
    data = responses.measure(client, frames=40, levels=(1, 3, 6))
    assert data["collisions"] >= 40
    for name in responses.VARIANTS:
        assert (data[name][2] < 0.6 * data[name][0]).all()
    assert (data["weighted"].mean(0) < data["plain"].mean(0)).all()


def test_an_impulse_keeps_momentum_and_takes_energy():
    rng = np.random.default_rng(4)
    _, flyers = responses.launch(responses.shapes(), 2, rng)
    a, b = flyers
    normal = np.array([0.6, 0.0, 0.8])
    point = (a.position + b.position) / 2
    if normal @ (a.speed_at(point) - b.speed_at(point)) > 0:
        normal = -normal
    impulse = responses.impulse_on(a, b, (normal, point))
    closing = normal @ (a.speed_at(point) - b.speed_at(point))
    for body, sign in ((a, 1), (b, -1)):
        body.velocity, body.spin = body.after(sign * impulse, point)
    assert normal @ (a.speed_at(point) - b.speed_at(point)) == pytest.approx(-responses.RESTITUTION * closing)
    assert not responses.impulse_on(a, b, (normal, point)).any()  # they part


def test_larger_budgets_of_pairs_give_better_answers(client):
    budgets = (30, 300, 1000, 100000)
    data = interruption.measure(client, steps=2, by="pairs", budgets=budgets, around=40, level=2)
    assert (data["two tori"]["examined"] == 1).all()
    assert data["heap of 64"]["examined"][0] < 0.1 and data["heap of 64"]["examined"][-1] == 1
    for of in data.values():
        assert (np.diff(of["quality"]) >= 0).all() and (np.diff(of["force"]) < 1e-9).all()
        assert of["volume"][-1] < 0.2 and of["force"][-1] < 0.1


SHORT = {
    "traverse": {"steps": 5}, "edge": {"steps": 5}, "rings": {"steps": 8, "resolutions": (2, 8)}, "phases": {"steps": 12},
    "one_solve": {"solves": 4, "cells": (0.8,)}, "snake": {"steps": 3, "elements": 10, "counts": (1, 4)},
    "scenes": {"stacks": (10,), "steps": 2, "triangles": 500}, "deep_start": {"steps": 2},
    "momentum": {"steps": 60}, "coulomb": {"steps": 4, "halvings": 1},
    "precision": {"finest": 1e-2, "pairs": 10, "real": ""}, "turning": {"steps": 5},
    "image_resolution": {"splits": 1, "tolerances": (0.1,)}, "scene_sizes": {"sizes": (4000, 8000), "repeats": 1},
    "directions": {"n": 3}, "obstacle": {"positions": 4, "steps": 2}, "nut": {"steps": 4, "around": 24}, "wheels": {"steps": 20},
    "contact_levels": {"contacts": 60, "scans": 3, "levels": range(2, 4)},
    "responses": {"frames": 5, "levels": (2, 4)},
    "interruption": {"steps": 2, "budgets": (1e-3, 1.0), "around": 20, "level": 1},
    "kilohertz": {"seconds": 0.05, "around": 20, "balls": 1},
}


@pytest.mark.parametrize("name", SHORT)
def test_pictures_and_tables_are_written(client, tmp_path, name):
    """Their figures are those of a few steps, and tested elsewhere."""
    numbers = run.run(client, name, tmp_path, **SHORT[name])
    assert numbers and np.isfinite(list(numbers.values())).all()
    assert (tmp_path / f"{name}.png").stat().st_size > 10000
    assert set(json.loads((tmp_path / f"{name}.json").read_text()))
    page = run.write_page(tmp_path).read_text()
    assert all(f"| {what} |" in page for what in numbers)


def test_the_page_has_what_an_experiment_says(tmp_path):
    part = run.section(one_solve, "one_solve", {"left after 1 solve, balls": 0.243, "left after 2 solves, x": 0.1})
    assert "| left after 1 solve, balls | 0.243 | less with cells |" in part and "| left after 2 solves, x | 0.1 |  |" in part
    (tmp_path / "one_solve.md").write_text(part)
    assert "Allard 2010, Fig. 6" in run.write_page(tmp_path).read_text()
    for name in run.NAMES:
        assert (ROOT / "tests" / "experiments" / f"{name}.py").exists()
