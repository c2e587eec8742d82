"""roofline.py's limits, with numbers made up so that each can be worked out by hand."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"

MACHINE = {
    "l2_bytes": 1000, "l3_bytes": 10000,
    "s_per_byte": {"l2_1": [1e-9, 2e-9, 3e-9], "l2_2": [0.5e-9] * 3, "l3_1": [2e-9] * 3, "l3_2": [1e-9] * 3,
                   "memory_1": [4e-9] * 3, "memory_2": [3e-9] * 3},
    "s": {name: [s, 9, 9] for name, s in
          (("vertex", 1e-6), ("pair", 7.0), ("crossing", 1e-3), ("triangle", 1e-5), ("fragment", 1e-4), ("span", 1e-2))},
}
COUNTS = {"cluster_pairs": 8, "looked_at": 12, "crossings": 4, "placed": 9, "added": 7, "vertices": 100, "crossed": 5, "inside": 15,
          "moved": 0, "listed": 0, "near_triangles": 50, "near_vertices": 30, "spans": 2}


@pytest.fixture(name="roofline")
def _roofline(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("roofline", BENCH / "roofline.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "roofline", module)
    spec.loader.exec_module(module)
    return module


def test_bytes_of_exact_and_of_what_deforms(roofline):
    still = 24 * 8 + 16 * 100 + 6 * 20 + 28 * 3
    assert roofline.bytes_needed("exact", COUNTS, 3) == pytest.approx(still)
    assert roofline.bytes_needed("exact", COUNTS | {"moved": 10, "listed": 12}, 3) == pytest.approx(still + 240 + 48)
    assert roofline.bytes_needed("ldi", COUNTS, 3) == 12 * 80 + 28 * 3


@pytest.mark.parametrize("size, threads, where, best", [(1000, 1, "l2", 1e-9), (1500, 1, "l3", 2e-9), (1500, 2, "l2", 0.5e-9),
                                                        (5001, 1, "memory", 4e-9), (5001, 16, "l2", 0.5e-9), (99999, 2, "memory", 3e-9)])
def test_bandwidth_is_that_of_the_smallest_memory_with_room(roofline, size, threads, where, best):
    assert roofline.s_per_byte(MACHINE, size, threads) == (where, best)


def test_a_row_divides_work_among_threads_and_names_stages_far_from_it(roofline):
    run = {"scene": "s", "method": "exact", "threads": 2, "gradient_entries": 3, "fragments": 0, "phases_ms": {},
           "ms": {"p10": 10.0, "median": 21.0, "p90": 30.0}}
    recorded = {"counts": COUNTS, "serial_ms": 2.0, "tasks_ms": 38.0, "wall_ms": 80.0,
                "stages_ms": {"search": 0.0, "place": 8.0, "cross": 32.0, "flood": 0.0, "sum": 16.0, "finish": 0.0}}
    row = roofline.row_of("text", run, recorded, MACHINE)
    assert row["work_ms"] == pytest.approx({"place": 0.1, "cross": 4.0, "sum": 0.2})
    assert row["by_arithmetic_ms"] == pytest.approx(2.15) and row["ratio"]["median"] == pytest.approx(21 / 2.15)
    text = roofline.where_it_goes(row)  # of 40 ms of the processor, by shares of the clock's 80
    assert "cross 40 % (4.0 x its limit)" in text and "sum 20 % (40.0 x its limit)" in text and "rest 30 %" in text
    assert "3 pairs of triangles and 2 of clusters looked at" in text and "search" not in text


def test_rays_count_vertices_fragments_and_spans(roofline):
    rates = {name: quantiles[0] for name, quantiles in MACHINE["s"].items()}
    assert roofline.work_needed("ldi", COUNTS, 6, rates) == pytest.approx({"vertices": 30e-6, "fragments": 6e-4, "spans": 2e-2})
