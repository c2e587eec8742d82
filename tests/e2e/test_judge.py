"""contactd.judge: trajectories whose overlaps are known, from arrays and files, and what it writes; `python -m contactd judge`, and
`contactctl judge`, which says the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, INSTRUMENTED, ROOT, SLOW
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
    again = contactd.judge([UNIT_BOX, UNIT_BOX], frames=(iter(frame) for frame in frames))
    assert again.volume.tolist() == report.volume.tolist()
    assert contactd.judge([UNIT_BOX, UNIT_BOX], frames=[]).to_dict() == {"frames": 0, "worst": None, "pairs": []}
    for wrong in (frames[0][:1], frames[0] * 2):
        with pytest.raises(errors.WrongLengthError, match=f"frame 1, frames: expected 2 arrays of positions, one for each body, got {len(wrong)}"):
            contactd.judge([UNIT_BOX, UNIT_BOX], frames=[frames[0], wrong])


def test_surfaces_that_are_inside_out_are_told(client):
    """They have no contacts: the report would say that nothing overlaps."""
    frames = [[UNIT_BOX[0], UNIT_BOX[0] * [k, 1, 1] + [0.25, 0, 0]] for k in (1, -1, 0, -1)]
    with pytest.warns(UserWarning, match="right is inside out or flat in 3 frames, the first at 0.5 s") as said:
        report = contactd.judge(BOXES, frames=frames, dt=0.5, client=client)
    assert report.volume[:, 0] == pytest.approx([0.75, 0, 0, 0]) and len(said) == 1


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
    for arguments, message in ((("--mesh", "left=box.obj"), "two bodies are named left: give each a name, NAME=FILE"),
                               (("--mesh", "=box.obj"), "=box.obj names no body"), (("--mesh", "a="), "a= names no file"),
                               (("--mesh", "box.obj"), "expected shape (T, 3, 4, 4)"), (("--limit", "-1"), "--limit is -1, expected 0 or more")):
        done = command(files, "--poses", "poses.npz", *arguments)
        assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.fixture
def ctl(files, server):
    """contactctl judge with these arguments in the folder of the files; its standard output, or what it complains of."""

    def run(*arguments, expect=0):
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "judge", *arguments], cwd=files, capture_output=True, text=True,
                              encoding="utf-8", timeout=60 * SLOW)
        assert done.returncode == expect, (done.stdout, done.stderr)
        assert bool(done.stderr) == (expect not in (0, 7))
        return done.stderr or done.stdout

    return run


MESHES = "left=box.obj", "right=box.obj"


def as_csv(names, poses, times) -> str:
    """Of (T, b, 7)."""
    rows = [f"{t!r},{name}," + ",".join(map(repr, map(float, p))) for t, frame in zip(times, poses) for name, p in zip(names, frame)]
    return "\n".join(["time,body,x,y,z,qx,qy,qz,qw", *rows]) + "\n"


def test_contactctl_says_the_same(files, ctl):
    """Of bodies that tumble through each other, one of them wholly inside another for a while, some pairs ignored."""
    random = np.random.default_rng(5)
    names, times = ["a", "b", "ball"], np.linspace(0.0, 1.3, 40)
    poses = np.concatenate([random.normal(0, 0.3, (40, 3, 3)), random.normal(0, 1, (40, 3, 4))], axis=2)
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    (files / "ball.obj").write_text(as_obj(*icosphere(0.3, 2)))
    shuffled = as_csv(names, poses, times.tolist()).splitlines()
    shuffled[1:] = [shuffled[1:][k] for k in random.permutation(120)]
    (files / "tumble.csv").write_text("\r\n".join(shuffled))
    meshes = {"a": UNIT_BOX, "b": UNIT_BOX, "ball": files / "ball.obj"}
    given = "tumble.csv", "a=box.obj", "b=box.obj", "ball.obj"
    for frames, ignore in ((40, ()), (40, [("a", "ball"), ("ball", "b")])):
        report = contactd.judge(meshes, poses[:frames], times=times[:frames], ignore=ignore)
        options = ["--ignore", " ".join(map(",".join, ignore))] if ignore else []
        answer, expected = json.loads(ctl(*given, *options, "--json")), report.to_dict()
        assert report.worst.is_nested == (not ignore)
        for found, wanted in ((answer["worst"], expected["worst"]), *zip(answer["pairs"], expected["pairs"], strict=True)):
            assert found.keys() == wanted.keys()
            for key in ("volume", "depth"):
                assert found.pop(key) == pytest.approx(wanted.pop(key), rel=1e-12)
            assert found == wanted
        assert answer["frames"] == expected["frames"]
        text = ctl(*given, *options)
        assert text.splitlines()[0] == str(report.worst) and len(text.splitlines()) == 3 + len(report.pairs)


def test_contactctl_prints_a_table_and_keeps_a_limit(files, ctl):
    lines = ctl("poses.csv", *MESHES).splitlines()
    assert lines[0] == str(contactd.judge(BOXES, POSES, dt=0.5).worst)
    assert lines[2].split() == ["DEPTH", "M", "AT", "S", "VOLUME", "M3", "PATCHES", "FRAMES", "NESTED", "BODIES"]
    assert lines[3].split()[1:] == ["0", "0.8", "1", "3", "left,", "right"]
    assert ctl("poses.csv", *MESHES, "--limit", "1e-3", expect=7) == "\n".join(lines) + "\n"
    ctl("poses.csv", *MESHES, "--limit", "1")
    assert ctl("poses.csv", *MESHES, "--ignore", "left,right", "--limit", "0") == "nothing overlaps\n"
    assert json.loads(ctl("poses.csv", *MESHES, "--ignore", "left,right", "--json")) == {"frames": 5, "worst": None, "pairs": []}
    small = json.loads(ctl("poses.csv", *MESHES, "--scale", "0.5", "--json"))["worst"]  # boxes of half the size, at the same places
    assert small["volume"] == pytest.approx(0.3 * 0.5 * 0.5)


def test_contactctl_takes_names_with_commas_and_a_byte_order_mark(files, ctl):
    rows = [f'{t},"a ""b"", c", {x},0,0, 0,0,0,1,extra' for t, x in enumerate((0.5, 0.7))]
    (files / "quoted.csv").write_text("\ufefftime,body,x,y,z,qx,qy,qz,qw,more\n" + "\n".join(rows), encoding="utf-8")
    text = ctl("quoted.csv", 'a "b", c=box.obj', "right=box.obj", "--json")
    assert json.loads(text)["worst"]["bodies"] == ['a "b", c', "right"] and json.loads(text)["worst"]["volume"] == pytest.approx(0.5)
    report = contactd.judge({'a "b", c': UNIT_BOX, "right": UNIT_BOX}, files / "quoted.csv")
    assert report.worst.volume == json.loads(text)["worst"]["volume"]


def test_blanks_around_fields(files, ctl):
    expected = contactd.judge(BOXES, files / "poses.csv").to_dict()
    given = ctl("poses.csv", *MESHES, "--json")
    (files / "poses.csv").write_text((files / "poses.csv").read_text().replace(",", " \t, ").replace("\n", " \n"))
    assert contactd.judge(BOXES, files / "poses.csv").to_dict() == expected
    assert ctl("poses.csv", *MESHES, "--json") == given


@pytest.mark.parametrize("change, message", [
    (("right,0.5", "wrong,0.5"), 'poses.csv, line 3: there is no mesh for "wrong"; there are left, right'),
    (("0.5,0,0,0", "0.5,0,zero,0"), 'poses.csv, line 3: z is "zero", expected a finite number'),
    (("0.5,0,0,0", "0.5,0,nan,0"), 'poses.csv, line 3: z is "nan", expected a finite number'),
    (("0.5,0,0,0", "0.5,0"), "poses.csv, line 3: expected 9 fields, as the first line has, got 7"),
    (("0,0,0,1", "0,0,1,1"), "poses.csv, line 2: expected a quaternion qx, qy, qz, qw of length 1, got one of 1.41421"),
    (("qw", "w"), "poses.csv, line 1: expected the columns time, body, x, y, z, qx, qy, qz, qw; qw is missing"),
    (("0.5,right", "0.0,right"), "poses.csv, line 3: right is there twice at 0 s"),
    (("1.0,right", "1.0,left"), "at 0 s there is no row of left"),
    (("time", "\0"), "poses.csv, line 1: expected text, got a byte 0"),
])
def test_contactctl_names_what_is_wrong_in_a_file(files, ctl, change, message):
    text = (files / "poses.csv").read_text()
    assert change[0] in text
    (files / "poses.csv").write_text(text.replace(*change, 1))
    assert message in ctl("poses.csv", *MESHES, expect=3)


def test_contactctl_refuses_bad_lines(files, ctl):
    (files / "open.obj").write_text(as_obj(UNIT_BOX[0], UNIT_BOX[1][1:]))
    (files / "none.csv").write_text("time,body,x,y,z,qx,qy,qz,qw\n")
    for arguments, code, message in (
            (("poses.csv", "left=box.obj", "box.obj", "--limit", "-1"), 2, "--limit is -1"),
            (("poses.csv", "box.obj", "box.obj"), 2, "two bodies are named box: give each a name, NAME=FILE"),
            (("poses.csv", "=box.obj"), 2, "names no body"), (("none", *MESHES), 2, "cannot read none"),
            (("poses.csv", "left=none.obj"), 2, "cannot read none.obj"), (("poses.csv",), 2, "judge takes POSES.csv NAME=FILE..."),
            (("poses.csv", *MESHES, "--ignore", "left right"), 2, 'expected pairs of names: "A,B"'),
            (("poses.csv", *MESHES, "--ignore", "left,middle"), 2, 'there is no body "middle"'),
            (("none.csv", *MESHES), 3, "expected a row for each body and time, got none"),
            (("poses.csv", "left=open.obj", "right=box.obj"), 3, "INVALID_MESH")):
        assert message in ctl(*arguments, expect=code)


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
    with pytest.raises(errors.InvalidArgumentError, match="poses: expected an array of numbers"):
        contactd.judge(BOXES, iter(POSES))
    for field, given in (("poses", {"poses": {"left": POSES[:, 0], "right": POSES[:, 1]}}), ("frames", {"frames": {"left": [], "right": []}})):
        with pytest.raises(errors.InvalidArgumentError, match=f"{field}: expected, of each frame, .* got a dictionary of left, right"):
            contactd.judge(BOXES, **given)
    with pytest.raises(errors.InvalidArgumentError, match="poses or frames"):
        contactd.judge(BOXES)
    with pytest.raises(errors.InvalidMeshError, match="right"):
        contactd.judge({"left": UNIT_BOX, "right": (UNIT_BOX[0], UNIT_BOX[1][1:])}, POSES)
    for ignore, message in (([("left", "middle")], "no body 'middle' to ignore; bodies are left, right"), (["left,right"], "no pair of names")):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            contactd.judge(BOXES, POSES, ignore=ignore)
