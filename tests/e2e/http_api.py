"""What the HTTP tests share: a client that checks every answer against proto/openapi.json, and mesh files."""

from __future__ import annotations

import dataclasses
import http.client
import json
import math
import pathlib
import re
import select
import struct
import urllib.parse

OPENAPI = json.loads((pathlib.Path(__file__).resolve().parents[2] / "proto" / "openapi.json").read_text())


def resolve(node: dict) -> dict:
    while "$ref" in node:
        found = OPENAPI
        for key in node["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        node = found
    return node


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def of_type(value, name: str) -> bool:
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, TYPES[name])


def mismatch(value, schema: dict, where: str = "") -> str | None:
    """Why value does not fit the schema (the keywords that openapi.json uses), or None."""
    schema = resolve(schema)
    if "oneOf" in schema:
        fitting = [s for s in schema["oneOf"] if mismatch(value, s, where) is None]
        return None if len(fitting) == 1 else f"{where}: fits {len(fitting)} of {len(schema['oneOf'])} shapes"
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(of_type(value, name) for name in names):
            return f"{where}: {value!r} is no {' or '.join(names)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", -math.inf) or value > schema.get("maximum", math.inf):
            return f"{where}: {value} is out of range"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", math.inf):
            return f"{where}: {len(value)} items"
        for i, item in enumerate(value):
            if why := mismatch(item, schema.get("items", {}), f"{where}[{i}]"):
                return why
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if missing := set(schema.get("required", [])) - set(value):
            return f"{where}: {sorted(missing)} missing"
        if schema.get("additionalProperties") is False and (extra := set(value) - set(properties)):
            return f"{where}: {sorted(extra)} not in the schema"
        for key, item in value.items():
            if why := mismatch(item, properties.get(key, {}), f"{where}.{key}"):
                return why
    return None


def template_of(path: str) -> str | None:
    for template in OPENAPI["paths"]:
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return template
    return None


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))


def check_documented(method: str, path: str, answer: Answer) -> None:
    """The answer is one that openapi.json announces, in its status, type and shape."""
    template = template_of(path)
    operation = OPENAPI["paths"].get(template or "", {}).get("get" if method == "HEAD" else method.lower())
    if operation is None:
        assert answer.status in (400, 403, 404, 405, 503), (method, path, answer)
        schema, kind = {"$ref": "#/components/schemas/Problem"}, "application/problem+json"
    else:
        documented = operation["responses"].get(str(answer.status))
        assert documented or answer.status >= 400, f"{method} {path} answered {answer.status}: {answer.body[:300]!r}"
        response = resolve(documented or operation["responses"]["default"])
        if "content" not in response:
            assert answer.body == b""
            return
        ((kind, content),) = response["content"].items()
        schema = content["schema"]
    assert answer.headers.get_content_type() == kind, (method, path, answer.headers)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Access-Control-Allow-Origin"] is None
    if method != "HEAD" and kind.endswith("json"):
        assert (why := mismatch(answer.json, schema)) is None, f"{method} {path}: {why}"
        if kind == "application/problem+json":
            assert answer.json["status"] == answer.status and answer.json["detail"]
            assert answer.json.get("retry_after") == (int(r) if (r := answer.headers["Retry-After"]) else None)


class Api:
    """One keep-alive connection, opened again when the server closed it."""

    def __init__(self, base: str, timeout: float = 60):
        url = urllib.parse.urlsplit(base)
        self.host, self.port = url.hostname, url.port
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def __call__(self, method: str, path: str, body=None, headers: dict | None = None, check: bool = True) -> Answer:
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        self._close_if_ended()
        self.connection.request(method, path, body=body, headers=headers)
        response = self.connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        if check:
            check_documented(method, path.split("?")[0], answer)
        return answer

    def _close_if_ended(self) -> None:
        """The server ends a connection that was idle for long, which http.client notices only by a failed request."""
        sock = self.connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self.connection.close()

    def get(self, path: str):
        answer = self("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body, status: int = 201, **headers):
        answer = self("POST", path, body, headers)
        assert answer.status == status, answer.body
        return answer.json

    def refused(self, method: str, path: str, status: int, code: str, body=None, headers=None, field=None) -> dict:
        """The problem document of a request that must be refused just so."""
        answer = self(method, path, body, headers)
        assert answer.status == status, answer.body
        problem = answer.json
        assert problem["code"] == code, problem
        if field is not None:
            assert problem.get("field") == field, problem
        return problem

    def gauge(self, name: str) -> float:
        text = self("GET", "/metrics").body.decode()
        (value,) = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return float(value)

    def box(self, size=(1.0, 1.0, 1.0), at=(0.0, 0.0, 0.0)) -> dict:
        vertices, triangles = box(size, at)
        answer = self("POST", "/v1/meshes", {"vertices": vertices, "triangles": triangles})
        assert answer.status in (200, 201), answer.body
        return answer.json

    def scene(self, **settings) -> str:
        return f"/v1/scenes/{self.post('/v1/scenes', settings)['id']}"


# ---- meshes ----


def box(size=(1.0, 1.0, 1.0), at=(0.0, 0.0, 0.0)):
    """Eight corners around `at` and twelve triangles, counter-clockwise from outside."""
    vertices = [
        [at[0] + (x - 0.5) * size[0], at[1] + (y - 0.5) * size[1], at[2] + (z - 0.5) * size[2]]
        for z in (0, 1) for y in (0, 1) for x in (0, 1)
    ]
    quads = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    return vertices, [t for a, b, c, d in quads for t in ([a, b, c], [a, c, d])]


def torus(n: int, m: int, major: float = 1.0, minor: float = 0.3):
    """2 n m triangles."""
    vertices, triangles = [], []
    for i in range(n):
        u = 2 * math.pi * i / n
        for j in range(m):
            v = 2 * math.pi * j / m
            r = major + minor * math.cos(v)
            vertices.append([r * math.cos(u), r * math.sin(u), minor * math.sin(v)])
            a, b = i * m + j, (i + 1) % n * m + j
            c, d = i * m + (j + 1) % m, (i + 1) % n * m + (j + 1) % m
            triangles += [[a, b, d], [a, d, c]]
    return vertices, triangles


def obj(vertices, triangles) -> bytes:
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices]
    lines += ["f " + " ".join(str(k + 1) for k in t) for t in triangles]
    return "\n".join(lines).encode() + b"\n"


def off(vertices, triangles) -> bytes:
    lines = ["OFF", f"{len(vertices)} {len(triangles)} 0"] + [f"{x!r} {y!r} {z!r}" for x, y, z in vertices]
    lines += ["3 " + " ".join(map(str, t)) for t in triangles]
    return "\n".join(lines).encode() + b"\n"


def ply(vertices, triangles, form: str = "ascii") -> bytes:
    head = (
        f"ply\nformat {form} 1.0\nelement vertex {len(vertices)}\nproperty float x\nproperty float y\n"
        f"property float z\nelement face {len(triangles)}\nproperty list uchar int vertex_indices\nend_header\n"
    ).encode()
    if form == "ascii":
        lines = [f"{x!r} {y!r} {z!r}" for x, y, z in vertices] + ["3 " + " ".join(map(str, t)) for t in triangles]
        return head + "\n".join(lines).encode() + b"\n"
    order = "<" if "little" in form else ">"
    return (
        head
        + b"".join(struct.pack(order + "3f", *v) for v in vertices)
        + b"".join(struct.pack(order + "B3i", 3, *t) for t in triangles)
    )


def stl_ascii(vertices, triangles) -> bytes:
    lines = ["solid s"]
    for t in triangles:
        lines.append("facet normal 0 0 0\nouter loop")
        lines += [f"vertex {vertices[k][0]!r} {vertices[k][1]!r} {vertices[k][2]!r}" for k in t]
        lines.append("endloop\nendfacet")
    return "\n".join([*lines, "endsolid s"]).encode() + b"\n"


def stl_binary(vertices, triangles) -> bytes:
    body = b"".join(
        struct.pack("<12fH", 0, 0, 0, *vertices[t[0]], *vertices[t[1]], *vertices[t[2]], 0) for t in triangles
    )
    return b"\0" * 80 + struct.pack("<I", len(triangles)) + body
