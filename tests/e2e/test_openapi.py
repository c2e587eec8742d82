"""The OpenAPI document against the server, by schemathesis: for every operation, requests at and beyond each limit of the
document and random ones. Answers have documented statuses, types and bodies, nothing is an error of the server, and what the
document forbids is refused. What it allows may be refused too: it cannot say which fields go together."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from http_api import OPENAPI, Api

TOOL = shutil.which("schemathesis", path=str(pathlib.Path(sys.executable).parent))
# Work whose deadline passes, or a scene's max_step_time, as 1 ns does, is answered 504, and what the scene's method does not
# take 501: neither is a fault of the server.
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501", "504"]
"""


@pytest.mark.skipif(TOOL is None, reason="needs schemathesis: make setup-dev")
def test_the_document_is_what_the_server_does(server, tmp_path):
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    done = subprocess.run([TOOL, "run", f"http://127.0.0.1:{server.http_port}/openapi.json", "--phases", "coverage,fuzzing",
                           "--max-examples", "3", "--seed", "1", "--request-timeout", "600", "--no-color",
                           "--suppress-health-check", "too_slow",  # on a busy machine making requests takes long
                           "--exclude-checks", "positive_data_acceptance",
                           "--exclude-path", "/v1/drain",  # which does what it says
                           "--exclude-path", "/v1/scenes/{scene}/live"],  # which does not end
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Tested: 0" not in done.stdout and "Tested:" in done.stdout, done.stdout


POSE = np.eye(4).tolist()
PLANE = {"kind": "half_space", "normal": [0, 0, 1]}


@pytest.mark.parametrize("body, is_taken", [
    ({"mesh": 0}, True), ({"mesh": 0, "kind": "deformable"}, True), ({"mesh": 0, "pose": POSE}, True),
    ({"mesh": 0, "kind": "rigid", "self_contact": True}, True),
    (PLANE, True), (PLANE | {"offset": 1.5, "group": 2, "mask": 1, "ignore": []}, True),
    (PLANE | {"self_contact": False}, True), ({"kind": "half_space", "pose": POSE}, True),
    ({}, False), ({"kind": "rigid"}, False), ({"kind": "half_space"}, False), ({"normal": [0, 0, 1]}, False),
    (PLANE | {"mesh": 0}, False), (PLANE | {"pose": POSE}, False), (PLANE | {"self_contact": True}, False),
    ({"kind": "half_space", "pose": POSE, "offset": 1}, False), ({"kind": "half_space", "offset": 1}, False),
    ({"mesh": 0, "normal": [0, 0, 1]}, False), ({"mesh": 0, "offset": 1}, False)], ids=json.dumps)
def test_bodies_are_documented_as_the_server_takes_them(server, body, is_taken):
    """mesh 0: the number of a mesh that the server has."""
    jsonschema = pytest.importorskip("jsonschema")
    api = Api(server.http)
    if "mesh" in body:
        body = body | {"mesh": api.box()["id"]}
    schema = {"$ref": "#/components/schemas/NewBody", "components": OPENAPI["components"]}
    assert jsonschema.Draft202012Validator(schema).is_valid(body) == is_taken
    answer = api("POST", f"{api.scene()}/bodies", body)
    assert answer.status == (201 if is_taken else 400), answer.body
