"""The OpenAPI document against the server, by schemathesis: for every operation, requests at and beyond each limit of the
document and random ones. Answers have documented statuses, types and bodies, nothing is an error of the server, and what the
document forbids is refused. What it allows may be refused too: it cannot say which fields go together."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import openapi_examples
import pytest
from http_api import OPENAPI, Api, mismatch, resolve

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


# Content that is shown as such, or is no text.
SHOWN = ("text/html", "text/javascript", "text/css", "image/png", "model/gltf-binary")


def shape(value):
    """Names of fields, and whether they have several items; what may be null has any type."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) and value and isinstance(value[0], dict) else type(value) is str


def without(value, *names):
    if isinstance(value, dict):
        return {key: without(item, *names) for key, item in value.items() if key not in names}
    return [without(item, *names) for item in value] if isinstance(value, list) else value


def test_examples_of_answers_are_what_the_server_answers(make_server):
    """Every answer that is read has one, it fits its schema, and a server that is asked the same answers with the same fields, and with the
    same numbers where they are not of its machine. tests/e2e/openapi_examples.py writes them anew."""
    jsonschema = pytest.importorskip("jsonschema")
    examples = {}
    for template, operations in OPENAPI["paths"].items():
        for method in set(operations) - {"parameters"}:
            for status, response in operations[method]["responses"].items():
                for kind, content in resolve(response).get("content", {}).items():
                    if not status.startswith("2") or kind in SHOWN or template == "/openapi.json":
                        continue
                    where = (template, method, int(status))
                    examples[where] = example = content["example"]
                    assert (why := mismatch(example, content["schema"])) is None, (where, why)
                    jsonschema.validate(example, {"components": OPENAPI["components"]} | content["schema"], jsonschema.Draft202012Validator)
    server = make_server("--backend", "cpu")
    answered = {(template, method, status): answer for template, method, status, answer in openapi_examples.answers(server.http, server.stream)}
    assert server.wait() == 0  # drained
    assert set(answered) == set(examples)
    for where, answer in answered.items():
        expected = examples[where]
        if where[0] not in ("/metrics", "/v1/scenes/{scene}/live"):
            assert shape(answer) == shape(expected), where
        if "/meshes" in where[0]:
            assert without(answer, "bytes", "device_bytes") == without(expected, "bytes", "device_bytes"), where
        if where[0].endswith(("/contacts", "/step", "/overlap")):
            assert answer["contacts"] == expected["contacts"] and len(answer["contacts"]) == 1, where
    texts = [(of["/metrics", "get", 200], of["/v1/scenes/{scene}/live", "get", 200]) for of in (examples, answered)]
    metrics, events = zip(*((re.findall(r"^# .*", metrics, re.M), re.findall(r"^event: (.*)\ndata: (.*)\n\n", live, re.M)) for metrics, live in texts))
    assert metrics[0] == metrics[1]
    told, seen = ([(name, shape(json.loads(data))) for name, data in of] for of in events)
    assert told == seen and [name for name, _ in told] == ["scene", "frame"]



def test_examples_are_written_in_place():
    """Those that are there are replaced, and nothing else changes."""
    text = openapi_examples.PATH.read_text(encoding="utf-8")
    example = OPENAPI["paths"]["/v1/scenes/{scene}/stats"]["get"]["responses"]["200"]["content"]["application/json"]["example"]
    assert openapi_examples.written(text, "/v1/scenes/{scene}/stats", "get", 200, example) == text
    changed = json.loads(openapi_examples.written(text, "/v1/scenes/{scene}/stats", "get", 200, {"scene": 2}))
    content = changed["paths"]["/v1/scenes/{scene}/stats"]["get"]["responses"]["200"]["content"]["application/json"]
    assert content.pop("example") == {"scene": 2}
    content["example"] = example
    assert changed == OPENAPI


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
