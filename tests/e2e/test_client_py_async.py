"""The Python client with asyncio, futures that are called back, and what a type checker says of programs that use it."""

from __future__ import annotations

import asyncio
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import CancelledError

import contactd
import numpy as np
import pytest
from conftest import INSTRUMENTED, ROOT, SLOW
from geometry import UNIT_BOX, moved

PATIENCE = 20 * SLOW


def two_boxes(client):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene("exact")
    return scene, scene.add_body(mesh, np.eye(4)), scene.add_body(mesh, np.eye(4))


def test_asyncio(server):
    async def volumes(client, shift):
        scene, _, b = two_boxes(client)
        async with scene:
            results = [await scene.step_async(poses={b: moved(shift)}), await scene.submit(want="volume")]
        assert scene.id not in {s["scene"] for s in client.scenes()}
        return [result.volumes[0] for result in results]

    async def main():
        async with contactd.connect_async(server.stream, timeout=PATIENCE) as client:
            found = await asyncio.gather(*(volumes(client, 0.1 * i) for i in range(5)))
        assert client.closed
        again = await contactd.connect_async(server.stream, timeout=PATIENCE)
        async with again:
            assert (await volumes(again, 0.5))[0] == pytest.approx(0.5)
        with pytest.raises(contactd.UnreachableError):
            await contactd.connect_async("127.0.0.1:9")
        return found

    for i, found in enumerate(asyncio.run(main())):
        assert found == pytest.approx([1 - 0.1 * i] * 2)


def test_a_task_that_is_cancelled_takes_the_step_back(server):
    async def main(scene, b):
        future = scene.submit(poses={b: moved(0.25)})
        task = asyncio.ensure_future(asyncio.wait_for(future, 1e-9))
        with pytest.raises(TimeoutError):
            await task
        return await scene.step_async()

    with contactd.connect(server.stream, timeout=PATIENCE) as client:
        scene, _, b = two_boxes(client)
        result = asyncio.run(main(scene, b))
        assert result.volumes[0] == pytest.approx(0.75) or result.sequence == 1  # the step was taken back in time


def test_what_was_not_sent_is_called_back(server):
    with contactd.connect(server.stream, timeout=PATIENCE) as client:
        scene, _, b = two_boxes(client)
        futures = [scene.submit(poses={b: moved(0.001 * i)}) for i in range(400)]
        cancelled = [i for i in range(399, 0, -1) if futures[i].cancel()]
        kept = 0
        for i, future in enumerate(futures):
            if i in cancelled:
                with pytest.raises(CancelledError):
                    future.result(PATIENCE)
                continue
            try:
                assert future.result(PATIENCE).volumes[0] == pytest.approx(1 - 0.001 * i)
                kept = i
            except contactd.errors.CancelledError:  # it had been sent, and the server ended it before it began
                assert i
        assert scene.step().volumes[0] == pytest.approx(1 - 0.001 * kept) and not futures[0].cancel()


def test_scenes_tell_methods_by_name(server):
    with contactd.connect(server.stream, timeout=PATIENCE) as client:
        scene, *_ = two_boxes(client)
        info = scene.info()
        assert (info["settings"]["method"], info["running_method"], info["settings"]["resolution"]) == ("exact", "exact", None)
        assert next(s for s in client.scenes() if s["scene"] == scene.id)["settings"] == info["settings"]


MYPY = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
GOOD = """
    import numpy as np
    from numpy.typing import NDArray
    import contactd
    from contactd.errors import InvalidMeshError, NotFoundError

    def run(client: contactd.Client) -> float:
        mesh = client.register_mesh(np.zeros((4, 3)), np.zeros((4, 3), int), name="a")
        with client.open_scene("exact", stiffness=2.0, patches=True) as scene:
            body: contactd.Body = scene.add_body(mesh, np.eye(4), kind="rigid")
            scene.configure(method="ldi", resolution=(8, 8, 8))
            result: contactd.StepResult = scene.step(poses={body: np.eye(4)}, want=("frame", "gradient"))
            future: contactd.Future = scene.submit(want="volume")
            rows, gradient = result.contacts[0].gradient(body)
            total = float(result.volumes.sum()) + float(result.generalized_gradients[0, 1, 3]) + float(gradient[0, 0])
            picture: bytes = scene.snapshot(show=["bodies", "contacts"])
            return total + len(rows) + len(picture) + future.result(3.0).quality

    def many(client: contactd.Client, template: contactd.Scene, done: NDArray[np.bool_]) -> str:
        scenes = client.open_scenes(4, template)
        client.reset(scenes[done])
        volumes: NDArray[np.float64] = client.step_many(scenes[1:]).volumes
        return repr(scenes[0]) + repr(volumes)

    async def wait(scene: contactd.Scene) -> int:
        return (await scene.step_async()).pairs + (await scene.submit()).passes

    try:
        run(contactd.connect("localhost:5555", wait=3.0))
        run(contactd.Engine(threads=2))
    except (InvalidMeshError, NotFoundError) as e:
        print(e.code, e.field, e.retry_after)
"""
BAD = ['scene.step(want="gradiant")', 'scene.step_async(want="gradiant")', "from contactd.errors import Nonsense", 'scene.configure(method="magic")', "scene.step(pose={})",
       'scene.add_body(mesh, kind="soft")', 'scene.snapshot(show="everything")', "result.volume", "client.register_mesh(None)"]


needs_no_server = pytest.mark.skipif(INSTRUMENTED, reason="nothing that is instrumented runs")


def needs(checker: str) -> None:
    if subprocess.run([sys.executable, "-m", checker, "--version"], capture_output=True).returncode != 0:
        pytest.skip(f"needs {checker}: make setup-dev")


def write_programs(folder: pathlib.Path) -> set[str]:
    """A good one, those with mistakes, whose names it gives, and the package in a folder that only they find."""
    head = ("import contactd\n\n"
            "def f(client: contactd.Client, scene: contactd.Scene, mesh: contactd.Mesh, result: contactd.StepResult) -> None:\n")
    (folder / "good.py").write_text("# pyright: strict\n" + textwrap.dedent(GOOD))
    for i, line in enumerate(BAD):
        (folder / f"bad{i}.py").write_text(f"{head}    {line}\n")
    shutil.copytree(ROOT / "client_py" / "contactd", folder / "site" / "contactd", ignore=shutil.ignore_patterns("__pycache__"))
    return {f"bad{i}.py" for i in range(len(BAD))}


@needs_no_server
def test_types(tmp_path):
    needs("mypy")
    bad = write_programs(tmp_path)
    done = subprocess.run([*MYPY, "--cache-dir", tmp_path / "cache", *sorted(p.name for p in tmp_path.glob("*.py"))], cwd=tmp_path,
                          env={"MYPYPATH": "", "PYTHONPATH": str(tmp_path / "site"), "PATH": ""}, capture_output=True, text=True)
    wrong = {line.split(":")[0] for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == bad, done.stdout + done.stderr


@needs_no_server
def test_the_package_has_types(tmp_path):
    needs("mypy")
    done = subprocess.run([*MYPY, "--cache-dir", tmp_path, "client_py/contactd"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_no_server
def test_types_by_pyright(tmp_path):
    """One run for all, as it takes most of its time to begin. What the package's adapters import need not be installed."""
    needs("pyright")
    bad = write_programs(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": ["site"]}))
    done = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable], cwd=tmp_path,
                          capture_output=True, text=True)
    report = json.loads(done.stdout)
    found = [d for d in report["generalDiagnostics"] if not d.get("rule", "").startswith("reportMissing") or "/site/" not in d["file"]]
    wrong = {str(pathlib.Path(d["file"]).relative_to(tmp_path.resolve())) for d in found}
    assert wrong == bad, [d for d in found if pathlib.Path(d["file"]).name not in bad]
    assert report["summary"]["filesAnalyzed"] > 40 + len(bad)
