"""contactctl in detail: the numbers in its JSON, every mistake on the line, bench, doctor, and every --help."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess

import pytest

from conftest import CONTACTCTL, SLOW

BOX = ("OFF\n8 12 0\n" + "".join(f"{x} {y} {z}\n" for z in (0, 1) for y in (0, 1) for x in (0, 1))
       + "".join(f"3 {a} {b} {c}\n" for a, b, c in [(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
                                                      (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)]))
MOVED = "1 0 0 0.5  0 1 0 0.25  0 0 1 0.125"


@pytest.fixture
def box(tmp_path):
    path = tmp_path / "box.off"
    path.write_text(BOX)
    return path


@pytest.fixture
def ctl(server):
    def run(*args, address: str | None = server.stream, env=None) -> subprocess.CompletedProcess:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")} | (env or {})
        where = ["--server", address] if address else []
        program = CONTACTCTL if address == server.stream and "--timeout" not in args else CONTACTCTL[:1]
        return subprocess.run([*program, *where, *map(str, args)], capture_output=True, text=True,
                              timeout=60 * SLOW, env=clean, stdin=subprocess.DEVNULL)

    return run


def ok(done: subprocess.CompletedProcess):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def refused(done: subprocess.CompletedProcess, code: int, *words: str) -> None:
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr


def test_contact(ctl, box):
    answer = ok(ctl("contact", box, box, "--pose-b", MOVED, "-o", "json", "--resolution", "16"))
    assert answer["method"] == "ldi" and answer["backend"] == "cpu" and answer["rays"] > 0
    assert list(answer["timings_us"]) == ["queue", "upload", "broadphase", "raster", "span", "contact", "download"]
    assert list(answer["wall_us"]) == list(answer["timings_us"])
    (contact,) = answer["contacts"]
    volume = 0.5 * 0.75 * 0.875
    assert contact["volume"] == pytest.approx(volume) and contact["volumes"] == pytest.approx([volume] * 3)
    assert contact["error_bound"] is None and contact["error_estimate"] >= 0
    a, b = contact["generalized_gradient"]
    assert a[:3] == pytest.approx([0.75 * 0.875, 0.5 * 0.875, 0.5 * 0.75], rel=1e-6)
    assert b[:3] == pytest.approx([-x for x in a[:3]], rel=1e-6)
    assert contact["center"] == pytest.approx([0.75, 0.625, 0.5625], abs=1e-6)
    assert len(contact["gradient_nonzeros"]) == len(contact["bodies"]) == 2 and min(contact["gradient_nonzeros"]) > 0
    assert contact["area"] > 0 and sum(x * x for x in contact["normal"]) == pytest.approx(1)


def test_no_overlap(ctl, box):
    answer = ok(ctl("-o", "json", "contact", box, box, "--pose-a", "1 0 0 9 0 1 0 0 0 0 1 0"))
    assert answer["contacts"] == []


def test_poses_by_quaternions(ctl, box):
    """As by matrices; a fifth of a turn about (1, 2, 2) / 3."""
    c, s = math.cos(math.pi / 5), math.sin(math.pi / 5) / 3
    x, y, z = s, 2 * s, 2 * s
    matrix = [1 - 2 * (y * y + z * z), 2 * (x * y - z * c), 2 * (x * z + y * c), 0.25, 2 * (x * y + z * c), 1 - 2 * (x * x + z * z), 2 * (y * z - x * c), 0.5,
              2 * (x * z - y * c), 2 * (y * z + x * c), 1 - 2 * (x * x + y * y), 0.125]
    volumes = [ok(ctl("contact", box, box, "--pose-b", " ".join(f"{v:.17g}" for v in pose), "-o", "json"))["contacts"][0]["volume"]
               for pose in (matrix, [0.25, 0.5, 0.125, x, y, z, c])]
    assert volumes[0] == pytest.approx(volumes[1], rel=1e-9) and 0.1 < volumes[0] < 0.6


def test_pixel_size_and_table(ctl, box):
    answer = ok(ctl("contact", box, box, "--pose-b", MOVED, "--pixel-size", "0.03125", "-o", "json"))
    assert answer["contacts"][0]["volume"] == pytest.approx(0.328125)
    text = ctl("contact", box, box, "--pose-b", MOVED)
    assert text.returncode == 0 and "0.328125" in text.stdout


def test_refused_input(ctl, box, tmp_path):
    hole = tmp_path / "hole.off"
    hole.write_text("\n".join(BOX.replace("8 12 0", "8 11 0").splitlines()[:-1]) + "\n")
    refused(ctl("contact", box, hole), 3, "hole.off", "INVALID_MESH", "edge")
    refused(ctl("mesh", "add", hole), 3, "hole.off", "INVALID_MESH", "edge")  # and no head of a table without rows
    added = ctl("mesh", "add", box, hole)
    assert added.returncode == 3 and [line.split()[-1] for line in added.stdout.splitlines()] == ["NAME", "box.off"]
    noise = tmp_path / "noise.ply"
    noise.write_bytes(bytes(range(256)))
    refused(ctl("contact", noise, box), 3, "noise.ply", "PARSE_ERROR")
    refused(ctl("contact", box, box, "--resolution", "0"), 3, "resolution")
    refused(ctl("contact", box, box, "--resolution", "1000000"), 3, "resolution")
    refused(ctl("contact", box, box, "--method", "exact", "--tolerance", "1e-9"), 3, "tolerance", "exact", "INVALID_ARGUMENT")
    refused(ctl("contact", box, box, "--tolerance", "1e-15"), 3, "tolerance", "ask for", "OUT_OF_RANGE")
    refused(ctl("mesh", "rm", "0123456789abcdef"), 3, "NOT_FOUND")
    refused(ctl("scene", "show", "12345"), 3, "NOT_FOUND")


def test_usage(ctl, box, tmp_path):
    refused(ctl("contact", box, tmp_path / "absent.ply"), 2, "absent.ply", "No such file")
    refused(ctl("contact", box, tmp_path), 2, "directory")
    refused(ctl("contact", box), 2, "A B")
    refused(ctl("contact", box, box, "--pose-a", "1 2 3"), 2, "12 numbers")
    refused(ctl("contact", box, box, "--pose-a", "1 2 3 0 0 0 2"), 2, "--pose-a", "length 1, got one of 2")
    refused(ctl("contact", box, box, "--pose-a", "nan 0 0 0 0 1 0 0 0 0 1 0"), 2, "--pose-a", "number 1 is nan")
    refused(ctl("contact", box, box, "--resolution", "many"), 2, "--resolution")
    refused(ctl("contact", box, box, "--resolution", "8", "--pixel-size", "1"), 2, "exclude")
    for method in ("certified", "magic"):
        refused(ctl("contact", box, box, "--method", method), 2, "--method", method, "auto, ldi, exact, ebpi or voxtree")
    refused(ctl("contact", box, box, "--tolerance", "-1"), 2, "--tolerance")
    refused(ctl("contact", box, box, "--frobnicate"), 2, "--frobnicate")
    refused(ctl("status", "--resolution", "8"), 2, "--resolution")
    refused(ctl("dance"), 2, "dance")
    refused(ctl("mesh"), 2, "mesh add")
    refused(ctl("status", "-o", "xml"), 2, "xml")
    refused(ctl("status", "--timeout", "-1"), 2, "--timeout")
    refused(ctl("scene", "set", "17"), 2, "nothing to set")
    refused(ctl(), 2, "usage")
    refused(ctl("status", address="carrier-pigeon"), 2, "carrier-pigeon")


def test_doctor(ctl, server):
    answer = ok(ctl("doctor", "-o", "json"))
    assert answer["ok"] and all(check["ok"] for check in answer["checks"])
    assert {"connection", "version", "readiness", "step"} <= {check["check"] for check in answer["checks"]}
    done = ctl("doctor", "--timeout", "1", address=f"tcp://127.0.0.1:{server.http_port}")
    assert done.returncode == 4 and "HTTP" in done.stdout  # something listens there, but it is the wrong port


def test_meshes(ctl, box):
    (added,) = ok(ctl("mesh", "add", box, "--name", "crate", "-o", "json"))
    assert added["triangles"] == 12 and added["volume"] == pytest.approx(1)
    assert added["hash"] in {m["hash"] for m in ok(ctl("mesh", "list", "-o", "json"))}
    assert ok(ctl("mesh", "rm", added["hash"][:8], "-o", "json")) == {"removed": [added["hash"][:8]]}
    assert added["hash"] not in {m["hash"] for m in ok(ctl("mesh", "list", "-o", "json"))}


def test_scenes(ctl, server):
    import contactd

    with contactd.connect(server.stream) as client:
        client.open_scene(name="mine", resolution=16)
        (scene,) = [s for s in ok(ctl("scene", "list", "-o", "json")) if s["name"] == "mine"]
        assert scene["resolution"] == [16, 16, 16]
        changed = ok(ctl("scene", "set", scene["id"], "--resolution", "8 16 32", "-o", "json"))
        assert changed["resolution"] == [8, 16, 32]
        assert ok(ctl("scene", "show", scene["id"], "-o", "json"))["resolution"] == [8, 16, 32]
        refused(ctl("scene", "set", scene["id"], "--resolution", "0"), 3, "resolution")
        for budget in (2**63 - 1, 2**53 + 1, 0):  # as many digits as the setting has, not as a double
            changed = ok(ctl("scene", "set", scene["id"], "--method", "voxtree", "--pair-budget", budget, "-o", "json"))
            assert changed["pair_budget"] == budget
        refused(ctl("scene", "set", scene["id"], "--pair-budget", 2**63), 2, "9223372036854775808", "expected 1 to 9223372036854775807")
        refused(ctl("scene", "set", scene["id"], "--pair-budget", 2**64 + 1), 2, "expected 1 to 9223372036854775807")


def test_bench(ctl):
    answer = ok(ctl("bench", "--seconds", "1", "-o", "json"))
    assert answer["steps"] >= 1 and 0 < answer["latency_us"]["p50"] <= answer["latency_us"]["p99"]
    assert answer["steps_per_s"] > 0 and answer["steps_per_s_pipelined"] > 0
    assert answer["spin_us"] == 2000
    assert ok(ctl("bench", "--seconds", "0.1", "--spin-us", "0", "-o", "json"))["spin_us"] == 0
    for bad in ("-1", "0.5", "many", "2000000"):
        refused(ctl("bench", "--spin-us", bad), 2, "--spin-us")


@pytest.mark.parametrize("words", [[], ["contact"], ["mesh"], ["mesh", "add"], ["mesh", "list"], ["mesh", "rm"],
                                   ["scene", "list"], ["scene", "show"], ["scene", "set"], ["status"], ["doctor"],
                                   ["bench"]])
def test_help(ctl, words):
    done = ctl(*words, "--help")
    assert done.returncode == 0 and "usage: contactctl" in done.stdout and "--timeout" in done.stdout
    as_command = ctl("help", *words, address=None)
    assert (as_command.returncode, as_command.stdout, as_command.stderr) == (0, done.stdout, "")


def test_help_has_two_columns(ctl):
    """A command that is wider than its column has a line to itself, and what it does is broken into lines."""
    for text, at in ((ctl("help", address=None).stdout.split("\n\n")[1], 23), (ctl("help", "scene", "set", address=None).stdout.split("line:\n")[1], 39)):
        rows = re.sub(r"\n\n.*", "", text, flags=re.S).splitlines()
        wide = [row for row in rows if len(row) >= at and row[at - 1] != " "]
        assert wide and all(rows[rows.index(row) + 1].startswith(at * " ") for row in wide)
        assert all(row[at - 1] == " " != row[at] and len(row) <= 100 for row in rows if row not in wide), rows
    shown = re.sub(r"\s+", " ", ctl("help", address=None).stdout)
    assert "judge POSES.csv NAME=FILE... how deep bodies were inside each other: of meshes, and a table of their poses over time" in shown


@pytest.mark.parametrize("words", [["contact"], ["scene", "set"], ["keys", "new"], ["completion"], ["help"]])
def test_examples_stand_in_help_and_manual(ctl, words):
    """Each of them begins with its command, has options that exist, and is in the manual page too."""
    text = ctl(*words, "--help", address=None).stdout
    examples = re.findall(r"^  contactctl (.+)$", text.split("examples:")[1].split("options, anywhere")[0], re.M)
    manual = ctl("man-page", address=None).stdout.replace("\\-", "-")
    assert examples
    for example in examples:
        assert f"contactctl {example}\n" in manual
        given = shlex.split(example)
        assert " ".join(words) in example and all(f"  {o} " in text for o in given if o.startswith("-") and o not in ("-o", "-l", "-"))


@pytest.mark.parametrize("words, examples", [([], 4), (["mesh"], 5), (["scene"], 6), (["keys"], 2)])
def test_help_of_several_commands_has_examples(ctl, words, examples):
    """Each of them is of a command that there is, and of options that it has."""
    text = ctl(*words, "--help", address=None).stdout
    lines = re.findall(r"^  contactctl (.+)$", text.split("examples:")[1].split("options of every")[0], re.M)
    assert len(lines) >= examples and all(line.startswith(" ".join(words)) or "--server" in line for line in lines)
    for line in lines:
        assert ctl(*shlex.split(line), "--help", address=None).returncode == 0


@pytest.mark.parametrize("line, meant", [
    ("sttus", "did you mean status?"), ("scene lsit", "did you mean scene list?"), ("help scne", "did you mean scene?"),
    ("help scene lst", "did you mean scene list?"), ("status --sevrer x", "did you mean --server?"),
    ("--outputt=json status", "unknown option --outputt; did you mean --output?"), ("help tpo", "did you mean top?"),
])  # fmt: skip
def test_what_was_meant(ctl, line, meant):
    refused(ctl(*line.split(), address=None), 2, meant)


@pytest.mark.parametrize("line", ["xyzzy", "scene xyzzy", "--xyzzy status", "-z", "q", "x" * 300, "--" + "x" * 300, "help xyzzy"])
def test_nothing_near_is_no_guess(ctl, line):
    done = ctl(*line.split(), address=None)
    assert done.returncode == 2 and "did you mean" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_options_of_all_commands_stand_anywhere(ctl, server):
    for line in (("--server", server.stream, "--json", "scene", "list"), ("scene", "--json", "list", "--server", server.stream),
                 ("scene", "list", "--json", f"--server={server.stream}")):  # fmt: skip
        assert ok(ctl(*line, address=None)) == []


def test_contact_of_meshes_that_the_server_has(ctl, box):
    (mesh,) = ok(ctl("mesh", "add", box, "-o", "json"))
    by_hash = ok(ctl("contact", mesh["hash"], mesh["hash"][:8], "--pose-b", MOVED, "-o", "json"))
    by_file = ok(ctl("contact", box, box, "--pose-b", MOVED, "-o", "json"))
    assert by_hash["contacts"] == by_file["contacts"] and by_hash["contacts"][0]["volume"] > 0
    assert by_hash["bodies"][0] | {"file": 0} == by_file["bodies"][0] | {"file": 0}
    assert "no overlap" not in ctl("contact", box, mesh["hash"].upper()).stdout
    refused(ctl("contact", mesh["hash"], box, "--scale", "0.001"), 2, "--scale is for files")
    refused(ctl("contact", "0123456789abcdef", box), 3, "0123456789abcdef", "NOT_FOUND")
    refused(ctl("contact", "0123456", box), 2, "cannot read 0123456")
    refused(ctl("contact", "0123456789abcdefg", box), 2, "cannot read")
    named = box.parent / "deadbeef"  # a file is a file, whatever its name
    named.write_text(BOX)
    assert ok(ctl("contact", named, box, "-o", "json"))["contacts"]


def test_help_of_no_command(ctl):
    refused(ctl("help", "scnee", address=None), 2, "no command scnee", "did you mean scene?")
    refused(ctl("help", "scene", "lists", address=None), 2, "no command scene lists", "did you mean scene list?")
    refused(ctl("help", "top", "now", address=None), 2, "no command top now")
    refused(ctl("help", "scene", "set", "1", address=None), 2, "help takes [COMMAND]")
