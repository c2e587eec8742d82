"""A server that says what contactd says of a scene to the page, by script: for tests of the page that need a scene in a known
state, one that is closed at a given moment, or a server that goes away. Serves the page's files out of the tree."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.server
import json
import math
import pathlib
import socketserver
import struct
import threading
import time
import urllib.parse
from typing import Any, Iterator

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "server" / "web"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
STATUS = {
    "server": "contactd of a test", "backend": "cpu", "rasterizer": "", "simd": "avx2", "threads": 2, "ready": True, "ready_reason": "",
    "draining": False, "devices": [], "steps": 0, "contacts": 0, "sessions": 0, "queue_depth": 0, "queue_capacity": 64,
    "lanes": {"small": {"steps": 0}, "large": {"steps": 0}}, "scenes": 1, "bodies": 2, "meshes": 1, "scene_bytes": 0, "mesh_bytes": 0,
    "mesh_bytes_limit": 1 << 30, "scratch_bytes": 0, "uptime_s": 1.0, "methods": ["ldi", "exact", "ebpi", "voxtree"],
}


def encoded(values: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def glb(vertices: np.ndarray, triangles: np.ndarray) -> bytes:
    positions, indices = np.asarray(vertices, "<f4").tobytes(), np.asarray(triangles, "<u4").tobytes()
    document = json.dumps({
        "asset": {"version": "2.0"}, "buffers": [{"byteLength": len(positions) + len(indices)}],
        "bufferViews": [{"buffer": 0, "byteLength": len(positions)},
                        {"buffer": 0, "byteOffset": len(positions), "byteLength": len(indices)}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": len(vertices), "type": "VEC3"},
                      {"bufferView": 1, "componentType": 5125, "count": 3 * len(triangles), "type": "SCALAR"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
    }).encode()
    document += b" " * (-len(document) % 4)
    chunks = struct.pack("<II", len(document), 0x4E4F534A) + document
    chunks += struct.pack("<II", len(positions) + len(indices), 0x004E4942) + positions + indices
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks


def torus(n: int, m: int, major: float = 0.35, minor: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """2 n m triangles."""
    u, v = np.meshgrid(2 * np.pi * np.arange(n) / n, 2 * np.pi * np.arange(m) / m, indexing="ij")
    r = major + minor * np.cos(v)
    vertices = np.stack([r * np.cos(u), r * np.sin(u), minor * np.sin(v)], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    a, b = i * m + j, (i + 1) % n * m + j
    c, d = (i + 1) % n * m + (j + 1) % m, i * m + (j + 1) % m
    return vertices, np.stack([a, b, c, a, c, d], -1).reshape(-1, 3)


@dataclasses.dataclass
class Script:
    """What the server says. Tests change it while it runs."""

    bodies: list[dict] = dataclasses.field(default_factory=list)
    meshes: dict[str, bytes] = dataclasses.field(default_factory=dict)
    frame: Any = None  # frame(n) -> the event's value, n counts from 0
    rate: float = 20.0
    closed: str | None = None  # the reason, once it is
    again: bool = False  # asking again may succeed
    gone: bool = False  # there is no such scene
    refusal: tuple[int, dict] | None = None  # of the live view: status and problem document
    scenes: int = 1
    requests: list[str] = dataclasses.field(default_factory=list)
    sent: list[tuple[str, dict]] = dataclasses.field(default_factory=list)  # PATCH and POST: path, body
    more: dict[str, Any] = dataclasses.field(default_factory=dict)  # path -> what GET answers there


def poses_of(matrices: np.ndarray, ids: list[int]) -> dict:
    return {"ids": ids, "data": encoded(matrices, "<f4")}


def placed(x: float, y: float, z: float) -> list[float]:
    return [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z]


def two_rings() -> Script:
    """Two rings that cross at the origin; the second moves along x, and comes back."""
    hash_ = "ab" * 16
    script = Script(meshes={hash_: glb(*torus(48, 24))})
    script.bodies = [{"id": i, "mesh": hash_, "kind": "rigid", "triangles": 2304, "name": f"ring {i}"} for i in (1, 2)]
    script.bodies.append({"id": 3, "kind": "half_space", "triangles": 0})

    def frame(n: int) -> dict:
        x = 0.25 + 0.1 * math.sin(n / 5)
        matrices = np.array([placed(-0.25, 0, 0), placed(x, 0, 0.05), placed(0, 0, -0.4)])
        square = [[-0.1, -0.1, 0], [0.1, -0.1, 0], [0.1, 0.1, 0], [-0.1, 0.1, 0]]
        surface = {"offsets": encoded([0, 4], "<u4"), "vertices": encoded(square, "<f4"), "pressure": encoded([0, 50, 100, 50], "<f4")}
        contact = {"bodies": [1, 2], "volume": 0.002, "depth": 0.02, "area": 0.04, "center": [0, 0, 0], "normal": [-1, 0, 0],
                   "wrench": [-3, 0, 4, 0, 0.1, 0], "points": [[0, 0.1, 0], [0, -0.1, 0]], "surface": surface}
        floor = {"bodies": [1, 3], "volume": 0.003, "depth": 0.01, "area": 0.02, "center": [-0.6, 0, -0.15], "normal": [0, 0, 1]}
        return {"step": n + 1, "time": n / 60, "poses": poses_of(matrices, [1, 2, 3]), "contacts": [contact, floor], "n_contacts": 2,
                "truncated": False, "separations": [{"bodies": [2, 3], "distance": 0.2, "points": [[x, 0.5, -0.2], [x, 0.5, -0.4]]}],
                "n_separations": 7}

    script.frame = frame
    return script


def many(n: int, triangles: int) -> Script:
    """n bodies of one mesh on a grid, all of which move."""
    hash_ = "cd" * 16
    side = max(3, round(math.sqrt(triangles / 4)))
    script = Script(meshes={hash_: glb(*torus(2 * side, side))})
    script.bodies = [{"id": i + 1, "mesh": hash_, "kind": "rigid", "triangles": 4 * side * side} for i in range(n)]
    across = math.ceil(n ** (1 / 3))
    grid = np.array([[i % across, i // across % across, i // across**2] for i in range(n)], float)

    def frame(k: int) -> dict:
        matrices = np.tile(np.array(placed(0, 0, 0), "f4"), (n, 1))
        matrices[:, [3, 7, 11]] = grid + 0.1 * np.sin(k / 10 + np.arange(n))[:, None]
        return {"step": k + 1, "time": k / 60, "poses": poses_of(matrices, list(range(1, n + 1))), "contacts": [], "n_contacts": 0}

    script.frame = frame
    return script


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    stopping: threading.Event

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status: int, **fields: Any) -> None:
        self.answer(json.dumps({"status": status, **fields}).encode(), "application/problem+json", status)

    def do_GET(self) -> None:
        script = self.script
        path, _, query = self.path.partition("?")
        script.requests.append(self.path)
        parts = path.strip("/").split("/")
        kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
        name = {"": "index.html", "docs": "docs.html", "page/three.js": "vendor/three-r168.min.js"}.get(path.strip("/"), path.strip("/"))
        if (WEB / name).is_file():
            return self.answer((WEB / name).read_bytes(), kinds[name.rsplit(".", 1)[1]], Content_Security_Policy=POLICY)
        if path == "/openapi.json":
            return self.answer((ROOT / "proto" / "openapi.json").read_bytes(), "application/json")
        if path in script.more:
            return self.answer(json.dumps(script.more[path]).encode(), "application/json")
        if path == "/v1/status":
            return self.answer(json.dumps({**STATUS, "scenes": script.scenes}).encode(), "application/json")
        if path == "/v1/scenes":
            return self.answer(json.dumps(self.scenes(dict(urllib.parse.parse_qsl(query)))).encode(), "application/json")
        if path == "/v1/meshes":
            return self.answer(b'{"meshes": []}', "application/json")
        if path == "/metrics":
            return self.answer(b"", "text/plain")
        if parts[:2] == ["v1", "meshes"] and parts[-1] == "geometry" and parts[2] in script.meshes:
            return self.answer(script.meshes[parts[2]], "model/gltf-binary", Cache_Control="private, immutable", ETag=f'"{parts[2]}"')
        if parts[:2] == ["v1", "scenes"] and parts[-1] == "live":
            return self.live()
        if parts[-1] == "snapshot.png":
            return self.answer(PNG, "image/png")
        self.problem(404, title="not found", detail=f"there is nothing at {path}")

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.sent.append((self.path, body))
        if self.script.refusal:
            return self.problem(self.script.refusal[0], **self.script.refusal[1])
        scene = self.script.more[self.path]
        scene.update(body, revision=scene["revision"] + 1)
        self.answer(json.dumps(scene).encode(), "application/json")

    def scenes(self, query: dict[str, str]) -> dict:
        find, limit = query.get("find", ""), int(query.get("limit", 1000))
        names = {i: f"arm {i}" if i % 2 else "" for i in range(int(query.get("after", 0)) + 1, self.script.scenes + 1)}
        found = [i for i, name in names.items() if find in name or str(i).startswith(find)]
        row = {"owner": "", "running_method": "exact", "pixel_size": 0, "resolution": None, "bodies": 2, "contacts": 1,
               "steps": 5, "bytes": 1000}
        more = {"next": found[limit - 1]} if len(found) > limit else {}
        return {"scenes": [{**row, "id": i, "name": names[i]} for i in found[:limit]], **more}

    def live(self) -> None:
        script = self.script
        if script.refusal:
            return self.problem(script.refusal[0], **script.refusal[1])
        if script.gone:
            return self.problem(404, title="not found", detail="there is no scene 1")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.event("scene", {"scene": 1, "name": "", "method": "exact", "settings": {}, "bodies": script.bodies})
            n = 0
            while not self.stopping.is_set():
                if script.closed is not None:
                    return self.event("closed", {"reason": script.closed, "again": script.again})
                self.event("frame", script.frame(n))
                n += 1
                time.sleep(1 / script.rate)

    def event(self, name: str, value: dict) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())


class PageServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


@contextlib.contextmanager
def page_server(script: Script, port: int = 0) -> Iterator[str]:
    """Serves until the block ends; then connections break."""
    stopping = threading.Event()
    server = PageServer(("127.0.0.1", port), type("Bound", (Handler,), {"script": script, "stopping": stopping}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
