"""The lines of README and docs, as they stand: what a newcomer pastes must run, in the order in which it is written, and links
must lead somewhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from geometry import icosphere

DRAWS = "CT_HAVE_EGL" in (BUILD / "flags").read_text() and not INSTRUMENTED  # drawing takes minutes then
README = (ROOT / "README.md").read_text()
PAGES = sorted(path for path in ROOT.glob("**/*.md") if not set(path.relative_to(ROOT).parts) & {"build", "node_modules"}
               and not path.relative_to(ROOT).parts[0].startswith(("build", ".")))
PROGRAMS = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md")), ROOT / "docs" / "debugging.md"]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(command: list[str], server, folder, **more) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60 * SLOW, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path, fresh_server):
    """Where a reader stands, with the files of this tree that pages name."""
    (tmp_path / "build").symlink_to(BUILD)
    for name in ("client_c", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def shell(text: str, server, folder) -> str:
    text = text.replace("http://127.0.0.1:8080", server.http)
    # Drawing takes a busy machine without a GPU longer than its ten seconds.
    text = text.replace("build/contactctl ", f"build/contactctl --timeout {60 * SLOW:.0f} ")
    return run(["bash", "-euo", "pipefail", "-c", text], server, folder,
               env=os.environ | {"CONTACTD_SERVER": server.stream})


def test_every_line(fresh_server, folder):
    page = (ROOT / "docs" / "use.md").read_text()
    command_line, from_c, in_process, over_http = blocks("sh", page)
    out = shell(command_line, fresh_server, folder)
    assert "volume     0.09375 m^3" in out and "(pushes body 1 out)" in out and "ready      yes" in out

    (program,) = blocks("python", page)
    program = program.replace('"tcp://127.0.0.1:5555"', f'"{fresh_server.stream}", timeout={60 * SLOW:.0f}')
    assert fresh_server.stream in program
    if not DRAWS:
        program = program.replace("    open(", "    # open(")
    out = run([sys.executable, "-c", program], fresh_server, folder,
              env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")})
    assert float(out.split()[0]) == pytest.approx(0.625**3 / 6, rel=0.01)

    if shutil.which("curl"):
        lines = over_http.splitlines()
        if not DRAWS:
            lines = [line for line in lines if "snapshot" not in line]
        out = shell("\n".join(line.replace("curl ", "curl -sS --fail-with-body ", 1) for line in lines), fresh_server, folder)
        assert '"volume":0.09375' in out and '"sparse"' in out and '"resolution":[256,256,256]' in out
        assert "contactd_steps_total" in out and '"ready":true' in out
        if DRAWS:
            assert (folder / "scene.png").read_bytes()[:4] == (folder / "contact.png").read_bytes()[:4] == b"\x89PNG"

    if not INSTRUMENTED and shutil.which("cc") and shutil.which("pkg-config"):
        assert "volume 0.015625 m^3" in shell(from_c, fresh_server, folder)
        assert "volume 0.0625 m^3" in shell(in_process, fresh_server, folder)


def test_readme(fresh_server, folder):
    """It is short, and both of its programs run."""
    assert len(README.splitlines()) <= 150
    vertices, triangles = icosphere(0.1, 2)
    for name in ("nut", "bolt", "box"):
        (folder / f"{name}.stl").write_text(stl(vertices, triangles))
    first, pile = blocks("python", README)
    given = "import numpy as np\npose, twist = np.eye(4), np.zeros(6)\npose[2, 3] = 0.09\n"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "client_py"), "CONTACTD_SERVER": fresh_server.stream}
    out = run([sys.executable, "-c", first], fresh_server, folder, env=environment)
    assert float(out) == pytest.approx(4 / 3 * np.pi * 1e-3, rel=0.1)
    out = run([sys.executable, "-c", given + pile], fresh_server, folder, env=environment)
    assert float(out.split()[0]) == pytest.approx(np.pi * 0.01**2 * (0.3 - 0.01) / 3, rel=0.3)  # of 320 triangles


@pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_tutorial(page, server, tmp_path):
    """Its programs are one, with the assertions that it has. A word behind "python" is a package that it needs, or "server"."""
    programs = re.findall(r"```python ?(\w*)\n(.*?)```", page.read_text(), re.DOTALL)
    assert programs
    needs = {need for need, _ in programs} - {"", "server"}
    for need in needs:
        pytest.importorskip(need)
    text = f"address = {server.stream!r}\n" + "\n".join(program for _, program in programs)
    run([sys.executable, "-c", text], server, tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "client_py"), "CONTACTD_LIBRARY": str(BUILD / "libcontact.so")})


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_notebook(page):
    """It has the page's programs, which the tests above run, and its texts, in their order."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "site" / "notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    text = page.read_text()
    cells = json.loads(notebooks.notebook(text))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [code for code in codes if not code.startswith("address =")] == [program.rstrip("\n") for program in blocks(r"python ?\w*", text)]
    assert cells[-1]["cell_type"] == "markdown" and "".join(cells[-1]["source"]).endswith(text.rstrip().rsplit(")", 1)[-1])
    assert len({cell["id"] for cell in cells}) == len(cells)


def stl(vertices, triangles) -> str:
    facets = ("facet normal 0 0 0 outer loop " + "".join(f"vertex {x} {y} {z} " for x, y, z in vertices[t]) + "endloop endfacet\n"
              for t in triangles)
    return "solid ball\n" + "".join(facets) + "endsolid ball\n"


def anchors(text: str) -> set[str]:
    """Of the headings, as browsers of repositories make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading)).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), link


def test_what_the_answers_mean(server):
    """Each sentence of that table that says which way something points."""
    vertices, triangles = icosphere(1.0, 4)
    with contactd.connect(server.stream) as client:
        ball = client.register_mesh(vertices, triangles)
        scene = client.open_scene(resolution=128, stiffness=50.0)
        pose = np.eye(4)
        pose[:3, 3] = 1.2, 0.5, -0.3
        a, b = scene.add_body(ball), scene.add_body(ball, pose=pose)
        result = scene.step(want="all")
        (contact,) = result.contacts
        assert contact.bodies == (a, b)
        across = pose[:3, 3] / np.linalg.norm(pose[:3, 3])
        assert contact.normal @ across < -0.99  # away from the second
        assert contact.generalized_gradient(a)[:3] @ across > 0  # towards the second V grows
        (at_a, of_a), (at_b, of_b) = contact.gradient(a), contact.gradient(b)
        assert np.abs(of_a.sum(0) + of_b.sum(0)).max() < 1e-12
        assert contact.forces(a) == pytest.approx(-50.0 * contact.volume * of_a)
        assert contact.depth == pytest.approx(contact.volume / contact.area)

        # Moving vertices against the gradient lessens the volume by what the gradient says.
        moved = vertices.astype("<f4")
        moved[at_a] -= (0.01 * of_a / np.abs(of_a).max()).astype("<f4")
        expected = float(np.einsum("ij,ij->", of_a, (moved - vertices)[at_a]))
        less = scene.step(positions={a: moved}).contacts[0].volume - contact.volume
        assert expected < 0 and less == pytest.approx(expected, rel=0.1)

        # Velocities, weighted and summed, are those of the second body relative to the first.
        weights_a, weights_b = contact.friction_weights(a), contact.friction_weights(b)
        u, v = np.array([0.3, -0.2, 0.1]), np.array([-0.1, 0.4, 0.2])
        relative = (weights_a.sum() * u + weights_b.sum() * v) / contact.area
        assert weights_a.sum() < 0 < weights_b.sum() and relative == pytest.approx(v - u, abs=0.01)

        # Rotation about the body's origin, which is its pose's translation.
        x = vertices[at_b] @ pose[:3, :3].T + pose[:3, 3]
        torque = np.cross(x - pose[:3, 3], of_b).sum(0)
        assert contact.generalized_gradient(b)[3:] == pytest.approx(torque, abs=1e-5)
