"""The examples of answers in proto/openapi.json: what a server answered that was sent the document's own examples of requests, in an
order in which one leads to the next.

    PYTHONPATH=client_py python tests/e2e/openapi_examples.py build/contactd      # writes them anew, as after a new field
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import urllib.request
from typing import Any, Iterator

from http_api import OPENAPI, Api

import contactd

PATH = pathlib.Path(__file__).resolve().parents[2] / "proto" / "openapi.json"
WIDTH = 150
METRICS = 9  # lines of them
EVENTS = 2  # of the live stream
# What is asked, in this order; {mesh}, {scene} and {body} are 1.
ASKED = """
POST /v1/meshes
POST /v1/meshes
GET /v1/meshes
GET /v1/meshes/{mesh}
POST /v1/scenes
POST /v1/scenes/{scene}/bodies
PATCH /v1/scenes/{scene}/bodies/{body}
PATCH /v1/scenes/{scene}
POST /v1/overlap
POST /v1/scenes/{scene}/step
GET /v1/scenes/{scene}/contacts
GET /v1/scenes/{scene}/stats
GET /v1/scenes/{scene}/bodies
GET /v1/scenes/{scene}/bodies/{body}
GET /v1/scenes/{scene}
GET /v1/scenes
GET /v1/scenes/{scene}/live
GET /v1/status
GET /v1/devices
GET /v1/history
GET /v1/sessions
GET /healthz
GET /readyz
GET /metrics
POST /v1/drain
"""


def live_events(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as stream:
        text = b""
        while text.count(b"\n\n") < EVENTS:
            text += stream.read1(65536)
    return "\n\n".join(text.decode().split("\n\n")[:EVENTS]) + "\n\n"


def answers(http: str, stream: str) -> Iterator[tuple[str, str, int, Any]]:
    """Path, method, status and answer, each of a server that nobody has asked anything yet. The last request ends it."""
    with contactd.connect(stream, wait=10):
        api = Api(http)
        for line in ASKED.split("\n")[1:-1]:
            method, template = line.split()
            path = template.format(mesh=1, scene=1, body=1) if "{" in template else template
            if template.endswith("/live"):
                yield template, "get", 200, live_events(http + path)
                continue
            if template == "/v1/history":
                while not api.get(path)["time"] or not any(api.get(path)["series"]["steps_per_s"]):
                    time.sleep(0.1)
            request = OPENAPI["paths"][template][method.lower()].get("requestBody")
            answer = api(method, path, request and request["content"]["application/json"]["example"])
            text = answer.body.decode()
            is_json = answer.headers.get_content_type() == "application/json"
            yield template, method.lower(), answer.status, answer.json if is_json else "".join(text.splitlines(True)[:METRICS])
            if template.endswith("/bodies") and method == "POST":
                api.post(path, {"mesh": 1})  # what the first one meets


def text_of(value: Any, indent: int) -> str:
    """JSON whose lines are filled, and whose nested parts stand on one line where they fit."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, (dict, list)):
        return line
    items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    lines = [""]
    for i, (key, item) in enumerate(items):
        part = ("" if key is None else f"{json.dumps(key)}: ") + text_of(item, indent + 2) + ("," if i < len(items) - 1 else "")
        if not lines[-1]:
            lines[-1] = part
        elif "\n" in part + lines[-1] or indent + 3 + len(lines[-1]) + len(part) > WIDTH:
            lines.append(part)
        else:
            lines[-1] += " " + part
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"\n{' ' * (indent + 2)}".join([opening, *lines]) + f"\n{' ' * indent}{closing}"


def written(document: str, template: str, method: str, status: int, example: Any) -> str:
    """The document with the example beside the schema of that answer, in place of the one that it may have."""
    start = document.index(f'"operationId": "{OPENAPI["paths"][template][method]["operationId"]}"')
    at = document.index('"schema": ', document.index(f'"{status}": {{', start))
    before = document[document.rindex("\n", 0, at) + 1 : at]
    indent = len(before) if not before.strip() else len(before) - len(before.lstrip()) + 2
    decode = json.JSONDecoder().raw_decode
    end = decode(document, at + len('"schema": '))[1]
    label = f',\n{" " * indent}"example": '
    after = decode(document, end + len(label))[1] if document.startswith(label, end) else end
    return document[:end] + label + text_of(example, indent) + document[after:]


def main() -> None:
    document = PATH.read_text(encoding="utf-8")
    with subprocess.Popen([sys.argv[1], "--stream", "tcp://127.0.0.1:45555", "--http", "127.0.0.1:48080"]) as server:
        for found in answers("http://127.0.0.1:48080", "tcp://127.0.0.1:45555"):
            document = written(document, *found)
        server.wait(30)
    json.loads(document)
    PATH.write_text(document, encoding="utf-8")


if __name__ == "__main__":
    main()
