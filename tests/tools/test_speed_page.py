"""docs/speed.md: its tables are what docs/speed.json says, and `make bench OUT=docs` puts new figures in their place."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import speed_page  # noqa: E402

DATA = json.loads((ROOT / "docs" / "speed.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def test_the_page_is_what_was_measured():
    assert speed_page.render(PAGE, DATA) == PAGE
    assert speed_page.text_of(DATA) == (ROOT / "docs" / "speed.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["exact_bunny_cube", "exact_armadillos", "exact_armadillos_deforming", "exact_ground_256", "exact_batch_1024",
                                  "exact_stack_40"])
def test_the_readme_quotes_it(name):
    median = speed_page.measured(name, DATA["figures"][name]).split(" ")[0].strip("*")
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("## Measured")[1].split("## ")[0]
    assert re.search(rf"(?<![\d.,]){re.escape(median)}(?![\d])", table), median


def test_every_figure_stands_in_one_table():
    placed = [name for names in speed_page.TABLES.values() for name in names]
    assert len(set(placed)) == len(placed) and set(placed) == set(speed_page.FIGURES) and set(DATA["figures"]) <= set(placed)


@pytest.mark.parametrize("name, figure, shown", [
    ("exact_boxes", {"median": 0.006, "spread": [0.0058, 0.0064]}, "6.0 µs (5.8-6.4)"),
    ("exact_boxes", {"median": 0.0061, "spread": None}, "**6.1 µs**"),
    ("all_positions", {"median": 1670, "spread": [1570, 1810]}, "1.67 ms (1.57-1.81)"),
    ("small_beside_large_p99", {"median": 164, "spread": [44, 900]}, "164 µs"),
    ("batch_1024", {"median": 2400, "spread": [2400, 2400]}, "**2,400 steps/s**"),
    ("points_boxes", {"median": None, "spread": [2.2, 2.7]}, "2.2 to 2.7 ×"),
    ("ground_coarse_256", {"median": 18.8, "spread": [18.7, 19.5]}, "18.8 ms (18.7-19.5)")])  # fmt: skip
def test_figures_are_shown_in_the_unit_that_reads_best(name, figure, shown):
    assert speed_page.measured(name, figure) == shown


@pytest.mark.parametrize("speedup, what, unit, shown", [
    (1.461, "base, 1 thread", "ms", "1.46 × faster than one thread without AVX2"), (0.5, "the same echo", "us", "2 × as long as the same echo"),
    (0.04, "avx2, 2 threads", "ms", "25 × as long as 2 threads with AVX2"), (0.5, "the bare arrays", "bytes", "2 × as much as the bare arrays"),
    (2.3, "ldi at 32^2", "ms", "2.3 × faster than `ldi` at 32²"), (None, None, "ms", ""), (64, "the numbers of tori", "x", "")])
def test_baselines_are_told_in_words(speedup, what, unit, shown):
    assert speed_page.beside({"speedup": speedup, "baseline_is": what}, unit) == shown


def test_new_figures_take_the_place_of_old_ones(tmp_path):
    """Those that were not measured again stay, and say of which commit they are."""
    figures = DATA["figures"] | {"voxtree_tree": DATA["figures"]["voxtree_tree"] | {"note": "of commit 0807961"}}
    (tmp_path / "speed.json").write_text(speed_page.text_of(DATA | {"figures": figures}), encoding="utf-8")
    (tmp_path / "speed.md").write_text(PAGE, encoding="utf-8")
    row = {"figure": "huge", "median": 50.0, "spread": [49.0, 51.0], "speedup": 3.0, "baseline_is": "base, 1 thread", "reach": 400.0, "text": "", "unit": "ms"}
    cuda = row | {"figure": "cuda_huge"}
    (tmp_path / "bench.json").write_text(json.dumps({"conditions": {"machine": "a new one", "compiler": "gcc", "commit": "0000001", "flags": ""},
                                                     "figures": [row, cuda]}))  # fmt: skip
    subprocess.run([sys.executable, speed_page.__file__, tmp_path, tmp_path / "bench.json"], check=True)
    page = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert "The tables are of commit 0000001, on a new one." in page
    assert "| 4.4M triangles in two bodies, 512², 2 threads | 50 ms (49-51) | 400 ms | 3 × faster than one thread without AVX2 |" in page
    old = DATA["conditions"]["commit"]
    assert f"of commit {old}" in page and "of commit 0807961" in page and re.search(r"two bodies of 346k triangles, 280 × 240 × 260, 2 threads¹ ", page)
    data = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert "cuda_huge" not in data["figures"] and data["figures"]["armadillos"]["note"] == f"of commit {old}" and "note" not in data["figures"]["huge"]


def test_a_page_that_lacks_a_table_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="others"):
        speed_page.render(PAGE.replace("<!-- made of speed.json: others -->", ""), DATA)
