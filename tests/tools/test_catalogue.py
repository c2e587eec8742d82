"""The catalogue's generator: wrong rows are refused by name, and files are what the tables say."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "proto" / "catalogue"


def load(path):
    spec = importlib.util.spec_from_file_location("generate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path):
    """The tables in a folder of their own, which a test changes."""
    target = tmp_path / "proto" / "catalogue"
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("client_c/ctl", "client_py/contactd", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("proto/openapi.json", "proto/contactd.fbs", "client_c/contactd.h", "client_c/contactd.hpp", "proto/errors.h",
                 "client_py/contactd/errors.py"):
        shutil.copy(ROOT / path, tmp_path / path)
    return target


def run(folder, *arguments):
    return subprocess.run([sys.executable, folder / "generate.py", *arguments], capture_output=True, text=True, check=False)


def test_files_are_as_the_tables_say():
    done = run(FOLDER, "--check")
    assert done.returncode == 0, done.stderr


def test_a_change_is_noticed_and_written(copy):
    assert run(copy).returncode == 0
    table = copy / "settings.toml"
    table.write_text(table.read_text().replace("most = 4096", "most = 5000", 1))
    done = run(copy, "--check")
    assert done.returncode == 1 and "proto/settings.h" in done.stderr and "make catalogue" in done.stderr
    assert run(copy).returncode == 0 and run(copy, "--check").returncode == 0
    assert "CT_MAX_RESOLUTION  5000" in (copy.parent / "settings.h").read_text()
    schema = json.loads((copy.parent / "openapi.json").read_text())["components"]["schemas"]["SceneSettings"]
    assert schema["properties"]["resolution"]["oneOf"][0]["maximum"] == 5000


@pytest.mark.parametrize("old, new, words", [
    ('unit = "m"\nmost = 1e30', "most = 1e30", "margin: a f64 has a unit"),
    ("id = 11\n", "id = 12\n", "has the name or the id of"),
    ("id = 11\n", "id = 77\n", "margin has the id 77, but in the table Settings of contactd.fbs it has the id 11"),
    ('methods = ["ebpi"]', 'methods = ["ebpy"]', "names the method 'ebpy'"),
    ('type = "flag"', 'type = "flagg"', "has the type 'flagg'"),
    ('setting = "allocation"', 'setting = "alocation"', "allocation is a choice, but"),
    ('zero_means = "none"', 'zero_mean = "none"', "has zero_mean, which no row has"),
    ("id = 3\nsummary", "summary", "stiffness lacks id"),
])
def test_wrong_rows_are_named(copy, old, new, words):
    table = copy / "settings.toml"
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))
    done = run(copy)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("old, new, words", [
    ("prepare_ns = 1000", "prepare_us = 1", "voxtree has prepare_us, which no row has"),
    ("usual_rays = 200000", "usual_rays = -1", "ebpi has the usual_rays -1, expected a number, at least 0"),
    ("prepare_ns = 20\n", "prepare_ns = 'few'\n", "ebpi has the prepare_ns 'few', expected a number"),
    ("number = 5", "number = 4", "two methods have the same number"),
])
def test_wrong_methods_are_named(copy, old, new, words):
    table = copy / "methods.toml"
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))
    done = run(copy)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_python_has_every_row():
    settings = load(ROOT / "client_py" / "contactd" / "_scene_settings.py")
    generate = load(FOLDER / "generate.py")
    rows, choices = generate.load_settings(generate.load_methods())
    assert [row.name for row in settings.ROWS] == [row["name"] for row in rows]
    for row in settings.ROWS:
        assert set(row.choices) == set(choices[row.name]["names"] if row.type == "choice" else ())
        assert isinstance(getattr(settings.SceneSettings, row.name), property)
