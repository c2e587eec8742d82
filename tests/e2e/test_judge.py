"""contactd.judge: trajectories whose overlaps are known, from arrays and files, and what it writes; `python -m contactd judge`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from contactd import _judge, errors
from geometry import UNIT_BOX, as_obj, box, icosphere, moved

pytestmark = pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")

SLIDE = [0.2, 0.5, 0.9, 1.0, 1.5]  # m between unit boxes: the overlap is 1 minus that, by 1 by 1
BOXES = {"left": UNIT_BOX, "right": UNIT_BOX}
POSES = np.array([[np.eye(4), moved(x)] for x in SLIDE])


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))


@pytest.fixture(params=["engine", "server"])
def client(request, server):
    with contactd.Engine(threads=2, timeout=30 * SLOW) if request.param == "engine" else \
            contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def test_sliding_boxes(client):
    report = contactd.judge(BOXES, POSES, dt=0.1, client=client)
    assert report.pairs.tolist() == [[0, 1]] and report.times.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert report.volume[:, 0] == pytest.approx([0.8, 0.5, 0.1, 0, 0], abs=1e-9)
    assert report.patches[:, 0].tolist() == [1, 1, 1, 0, 0]
    worst = report.worst
    assert worst.frame == 0 and worst.bodies == ("left", "right") and worst.volume == pytest.approx(0.8)
    assert report.depth[0, 0] > report.depth[1, 0] > report.depth[2, 0] > 0


def test_depth_of_a_thin_overlap_is_its_thickness():
    poses = np.array([[np.eye(4), moved(1 - thin)] for thin in (1e-3, 1e-4)])
    report = contactd.judge(BOXES, poses, times=[0.0, 0.84])
    assert report.depth[:, 0] == pytest.approx([1e-3, 1e-4], rel=0.01)
    assert str(report.worst) == "worst penetration 1 mm at 0 s between left and right"
    assert str(contactd.judge(BOXES, poses[1:], times=[0.84]).worst) == "worst penetration 100 µm at 0.84 s between left and right"


def test_patches_and_more_frames_than_a_batch():
    """A box that bridges two others, whose deeper one counts."""
    count = 2 * _judge.BATCH + 3
    table = (np.concatenate([UNIT_BOX[0] - [2, 0, 0], UNIT_BOX[0] + [2, 0, 0]]), np.concatenate([UNIT_BOX[1], UNIT_BOX[1] + 8]))
    plank = box((-3, -0.4, 0), (3, 0.4, 0.2))
    poses = np.tile(np.eye(4), (count, 2, 1, 1))
    poses[:, 1, 2, 3] = 0.5 - np.linspace(1e-4, 1e-3, count)
    report = contactd.judge({"table": table, "plank": plank}, poses)
    assert report.patches[:, 0].tolist() == [2] * count
    assert report.volume[:, 0] == pytest.approx(2 * 0.8 * np.linspace(1e-4, 1e-3, count), rel=1e-4)
    assert report.worst.frame == count - 1


def test_nested_bodies_are_the_worst(client):
    poses = np.array([[np.eye(4), moved(0.1)], [np.eye(4), moved(0.95)]])
    report = contactd.judge({"box": UNIT_BOX, "ball": icosphere(0.2, 2)}, poses, client=client)
    assert report.nested[0, 0] and "wholly inside" in str(report.worst) and report.worst.frame == 0


def test_deforming_surfaces():
    frames = [[UNIT_BOX[0], UNIT_BOX[0] * s + [0.9, 0, 0]] for s in (1.0, 0.9, 0.7)]
    report = contactd.judge([UNIT_BOX, UNIT_BOX], frames=frames)
    assert report.names == ["body 0", "body 1"]
    assert report.volume[:, 0] == pytest.approx([0.1, 0.05 * 0.81, 0], abs=1e-9)


def test_pairs_that_are_ignored():
    report = contactd.judge(BOXES, POSES, ignore=[("right", "left")])
    assert report.worst is None and report.pairs.shape == (0, 2) and repr(report) == "<Report of 5 frames: nothing overlaps>"


def test_what_it_writes(tmp_path):
    report = contactd.judge({"a <b>": UNIT_BOX, "right": UNIT_BOX}, POSES)
    report.save(tmp_path / "judge.html")
    page = (tmp_path / "judge.html").read_text(encoding="utf-8")
    assert "a &lt;b&gt;" in page and "src=" not in page and "href=" not in page
    for svg in page.split("<svg")[1:]:
        xml.etree.ElementTree.fromstring("<svg" + svg.split("</svg>")[0] + "</svg>")
    contactd.judge(BOXES, POSES[3:]).save(tmp_path / "none.html")
    assert "nothing overlaps" in (tmp_path / "none.html").read_text(encoding="utf-8")
    pytest.importorskip("matplotlib")
    report.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    text = json.dumps(report.to_dict())
    assert json.loads(text)["pairs"][0]["frames"] == 3


@pytest.fixture
def files(tmp_path):
    (tmp_path / "box.obj").write_text(as_obj(*UNIT_BOX))
    np.savez(tmp_path / "poses.npz", poses=POSES, times=np.arange(5) * 0.5)
    rows = [f"{k / 2},right,{x},0,0,0,0,0,1" for k, x in enumerate(SLIDE)]
    (tmp_path / "poses.csv").write_text("\n".join(["time, body, x, y, z, qx, qy, qz, qw", *rows]) + "\n")
    return tmp_path


def command(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "contactd", "judge", "--mesh", "left=box.obj", "--mesh", "right=box.obj", *arguments],
                          cwd=folder, capture_output=True, text=True, timeout=60 * SLOW,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "client_py"), "PYTHONIOENCODING": "utf-8"})


def test_from_a_shell(files):
    for poses in ("poses.npz", "poses.csv"):
        done = command(files, "--poses", poses, "--json", "--html", "judge.html")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["worst"]["bodies"] == ["left", "right"] and answer["worst"]["volume"] == pytest.approx(0.8)
        assert (files / "judge.html").exists()
    done = command(files, "--poses", "poses.csv", "--limit", "1e-3")
    assert done.returncode == 1 and done.stdout.startswith("worst penetration ")
    assert command(files, "--poses", "poses.csv", "--ignore", "left,right", "--limit", "0").returncode == 0
    assert command(files, "--poses", "none.csv").returncode == 2


def _broken(name, content):
    return pytest.param(name, content, id=f"{name} {len(content)}")


@pytest.mark.parametrize("name, content", [
    _broken("broken.npz", b"PK\x03\x04 and no more"), _broken("empty.npz", b""), _broken("text.npz", b"time,body"),
    _broken("latin.csv", "time,body,x,y,z,qx,qy,qz,qw\n0,Mutter gr\xfcn,0,0,0,0,0,0,1\n".encode("latin-1"))])
def test_files_that_cannot_be_read(files, name, content):
    """Status 1 is that the limit is passed, and nothing else."""
    (files / name).write_bytes(content)
    with pytest.raises(errors.ParseError, match=name):
        contactd.judge(BOXES, files / name)
    done = command(files, "--poses", name, "--limit", "1")
    assert done.returncode == 2 and name in done.stderr and "Traceback" not in done.stderr


def test_poses_of_an_array_without_a_name(files):
    with (files / "alone.npz").open("wb") as file:
        np.save(file, POSES)
    with pytest.raises(errors.ParseError, match="one array without a name"):
        contactd.judge(BOXES, files / "alone.npz")


def test_plots_without_matplotlib(files):
    (files / "matplotlib.py").write_text("raise ImportError()")
    done = command(files, "--poses", "poses.npz", "--plot", "curves.png")
    assert done.returncode == 2 and "needs the package matplotlib" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("change, message", [
    (("right,0.5", "wrong,0.5"), r"line 3: there is no mesh for 'wrong'; there are left, right"),
    (("0.5,0,0,0", "0.5,0,zero,0"), r"line 3: expected numbers"),
    (("qw", "w"), r"qw is missing"),
    (("0.5,right", "0.0,right"), r"line 3: right is there twice at 0 s"),
])
def test_bad_files_are_named(files, change, message):
    text = (files / "poses.csv").read_text()
    assert change[0] in text
    (files / "poses.csv").write_text(text.replace(*change))
    with pytest.raises(errors.ParseError, match=message):
        contactd.judge(BOXES, files / "poses.csv")


def test_bad_input():
    with pytest.raises(errors.WrongLengthError, match=r"expected shape \(T, 2, 4, 4\)"):
        contactd.judge(BOXES, POSES[:, :1])
    with pytest.raises(errors.WrongLengthError, match="expected 5 times"):
        contactd.judge(BOXES, POSES, times=[1.0])
    with pytest.raises(errors.InvalidArgumentError, match="poses or frames"):
        contactd.judge(BOXES)
    with pytest.raises(errors.InvalidMeshError, match="right"):
        contactd.judge({"left": UNIT_BOX, "right": (UNIT_BOX[0], UNIT_BOX[1][1:])}, POSES)
    for ignore, message in (([("left", "middle")], "no body 'middle' to ignore; bodies are left, right"), (["left,right"], "no pair of names")):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            contactd.judge(BOXES, POSES, ignore=ignore)
