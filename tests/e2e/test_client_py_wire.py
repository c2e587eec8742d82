"""The Python client's encoder and decoder against flatc, which knows the schema best; and damaged messages."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess

import contactd
import numpy as np
import pytest
from conftest import ROOT
from contactd import _schema, _wire, errors

SCHEMA = ROOT / "proto" / "contactd.fbs"

MESSAGES = {
    "Hello": {"version": 1, "min_version": 1, "client": "grüße", "lease_ms": 5},
    "RegisterMesh": {"vertices": {"dtype": 1, "count": 3, "bytes": bytes(range(12))}, "name": ""},
    "MeshInfo": {"mesh": 2**52, "hash": "ab" * 16, "volume": 1.25, "lo": (-1.0, 0.0, 1e300), "existed": True},
    "MeshList": {"meshes": [{"mesh": 1, "name": "a"}, {"mesh": 2, "name": "b", "bodies": 3}, {}]},
    "OpenScene": {"settings": {"method": 1, "resolution": (1, 2, 3), "pixel_size": 0.5}, "name": "x" * 300},
    "AddBody": {"scene": 7, "mesh": 9, "kind": 2, "pose": tuple(float(i) for i in range(12)), "mask": 5, "ignore": (1, 2)},
    "Welcome": {"version": 1, "epoch": 2**64 - 1, "session": 2**63, "methods": ["ldi", "later"]},
    "Step": {"scene": 1, "sequence": 2, "want": 31, "deadline_us": 2**32 - 1, "tolerance": 1e-9, "updates": [
        {"body": 4097, "kind": 3, "positions": {"dtype": 2, "count": 3, "frame": 16},
         "indices": {"dtype": 3, "count": 1, "bytes": b"\1\0\0\0"}}, {"body": 2, "kind": 4, "pose": (0.5,) * 12}]},
    "Error": {"code": 15, "object": "scene 1", "field": "", "message": "full", "retry": True, "retry_after_ms": 12},
    "Done": {},
}


def flatc(*arguments: str, cwd) -> None:
    if shutil.which("flatc") is None:
        pytest.skip("no flatc here")
    subprocess.run(["flatc", *arguments], cwd=cwd, check=True, capture_output=True)


def same(mine, theirs) -> bool:
    """Whether a value of a message is what flatc's JSON says."""
    if isinstance(mine, (bytes, tuple)):
        return list(mine) == theirs
    if isinstance(mine, list):
        return len(mine) == len(theirs) and all(same(a, b) for a, b in zip(mine, theirs))
    if isinstance(mine, dict):
        return all(same(value, theirs.get(key, type(value)())) for key, value in mine.items())
    return mine == theirs


@pytest.mark.parametrize("kind", MESSAGES)
def test_flatc_reads_what_is_written(tmp_path, kind):
    (tmp_path / "m.bin").write_bytes(_wire.encode(kind, MESSAGES[kind], request=3, session=2**64 - 1, epoch=5))
    flatc("--json", "--strict-json", "--raw-binary", "--defaults-json", str(SCHEMA), "--",
          "m.bin", cwd=tmp_path)
    text = (tmp_path / "m.json").read_text()
    out = json.loads(re.sub(r": nan\b", ": null", text))
    for enum in _schema.ENUMS.values():  # flatc writes enums by name
        names = {m.name: m.value for m in enum}
        for table in [out["body"], *out["body"].get("updates", []), out["body"].get("settings", {})]:
            for key in ("code", "method", "kind"):
                if table.get(key) in names:
                    table[key] = names[table[key]]
            for array in table.values():
                if isinstance(array, dict) and array.get("dtype") in names:
                    array["dtype"] = names[array["dtype"]]
        for key in ("vertices", "triangles"):
            array = out["body"].get(key)
            if isinstance(array, dict) and array.get("dtype") in names:
                array["dtype"] = names[array["dtype"]]
    assert (out["request"], out["session"], out["epoch"], out["body_type"]) == (3, 2**64 - 1, 5, kind)
    assert same(MESSAGES[kind], out["body"]), out["body"]


@pytest.mark.parametrize("kind", MESSAGES)
def test_what_flatc_writes_is_read(tmp_path, kind):
    """flatc lays tables out in another order, and leaves defaults out."""
    (tmp_path / "m.bin").write_bytes(_wire.encode(kind, MESSAGES[kind], request=3))
    flatc("--json", "--strict-json", "--raw-binary", str(SCHEMA), "--", "m.bin", cwd=tmp_path)
    (tmp_path / "m.bin").unlink()
    flatc("-b", str(SCHEMA), "m.json", cwd=tmp_path)
    message = _wire.decode([(tmp_path / "m.bin").read_bytes()])
    assert message.kind == kind and message.request == 3

    def check(mine, read):
        read = read.read() if isinstance(read, _wire.Later) else read
        for key, value in mine.items():
            if isinstance(value, dict):
                check(value, read[key])
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                [check(a, b) for a, b in zip(value, read[key], strict=True)]
            else:
                assert bytes(read[key]) == value if isinstance(value, bytes) else read[key] == value

    check(MESSAGES[kind], message.body)


def test_defaults_are_the_schemas():
    message = _wire.decode([_wire.encode("Configure", {"settings": {}}, request=1)])
    settings = message.body["settings"]
    assert settings["pixel_size"] == -1 and settings["stiffness"] == -1 and settings["resolution"] is None
    body = _wire.decode([_wire.encode("AddBody", {}, request=1)]).body
    assert (body["group"], body["mask"]) == (1, 2**32 - 1)
    contact = _wire.decode([_wire.encode("StepResult", {"contacts": [{}]}, request=1)]).body["contacts"][0].read()
    assert np.isnan(contact["error_bound"])


def test_arrays_go_inline_or_into_frames():
    small, large = np.zeros(100, "<f4"), np.zeros(30000, "<f4")
    arrays = _wire.Arrays()
    tables = [arrays.add(small), arrays.add(small)]
    arrays.place()
    assert arrays.frames == [] and all(len(t["bytes"]) == 400 for t in tables)
    arrays = _wire.Arrays()
    tables = [arrays.add(large if i % 2 else small) for i in range(40)]
    arrays.place()
    assert len(arrays.frames) == _wire.MAX_FRAMES and all(len(f) == 120000 for f in arrays.frames)
    assert sorted(t["frame"] for t in tables if "frame" in t) == list(range(1, 17))
    assert np.shares_memory(np.frombuffer(arrays.frames[0], "<f4"), large), "a large array was copied"


def test_every_error_code_is_a_class():
    text = re.sub(r"\s+", " ", SCHEMA.read_text())
    listed = re.search(r"enum ErrorCode : ushort \{([^}]*)\}", text).group(1)
    codes = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", listed) if name != "OK"}
    for name, number in codes.items():
        error = errors.error_for(number, "why", object="body 4", field="positions", retry=True, retry_after=0.5)
        assert isinstance(error, contactd.ContactdError) and error.code.name == name and type(error).__name__ in errors.__all__
        assert str(error) == f"{name}: body 4, positions: why" and error.retry and error.retry_after == 0.5
    for cls, base in ((errors.InvalidMeshError, ValueError), (errors.NonFiniteError, ValueError), (errors.NotFoundError, LookupError),
                      (errors.DeadlineExceededError, TimeoutError), (errors.UnreachableError, ConnectionError),
                      (errors.OutOfMemoryError, MemoryError), (errors.ForbiddenError, PermissionError)):
        assert issubclass(cls, base)
    assert type(errors.error_for(999, "new")) is contactd.ContactdError


def test_damaged_answers_are_refused_or_read_but_never_worse():
    rng = random.Random(3)
    arrays = _wire.Arrays()
    body = {"scene": 7, "contacts": [{"body_a": 1, "body_b": 2, "volumes": (1.0, 2.0, 3.0), "normal": (0.0, 0.0, 1.0)}] * 3,
            "vertices": arrays.add(np.arange(8, dtype="<u4")), "gradient": arrays.add(np.zeros(24)), "backend": "cpu"}
    arrays.place()
    good = _wire.encode("StepResult", body, request=5)
    refused = 0
    for _ in range(20000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.choice([len(data), rng.randrange(len(data))])]
        try:
            message = _wire.decode([bytes(data)])
            [c.read() for c in message.body.get("contacts") or []]
            [message.array(k) for k in ("vertices", "gradient") if k in message.body]
        except _wire.MalformedMessage:
            refused += 1
    assert 5000 < refused < 20000
