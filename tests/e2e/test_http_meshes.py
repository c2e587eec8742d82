"""/v1/meshes over HTTP: every format, content addressing, refusals that say what is wrong, memory that comes back."""

from __future__ import annotations

import json
import socket
import struct

import numpy as np
import pytest
from conftest import SLOW
from http_api import Api, box, obj, off, ply, stl_ascii, stl_binary, torus


@pytest.fixture
def api(server) -> Api:
    return Api(server.http)


FORMATS = {
    "obj": (obj, "model/obj"),
    "off": (off, "model/off"),
    "ply ascii": (lambda v, t: ply(v, t), "model/ply"),
    "ply little": (lambda v, t: ply(v, t, "binary_little_endian"), "model/ply"),
    "ply big": (lambda v, t: ply(v, t, "binary_big_endian"), "application/ply"),
    "stl ascii": (stl_ascii, "model/stl"),
    "stl binary": (stl_binary, "application/sla"),
    "json": (lambda v, t: json.dumps({"vertices": v, "triangles": t}).encode(), "application/json"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_by_type_and_by_content(api, name):
    write, content_type = FORMATS[name]
    size = (1.0, 2.0, 0.25 * (1 + list(FORMATS).index(name)))  # its own content
    body = write(*box(size))
    answer = api("POST", "/v1/meshes", body, {"Content-Type": content_type})
    assert answer.status == 201
    mesh = answer.json
    assert (mesh["vertices"], mesh["triangles"], mesh["components"], mesh["bodies"]) == (8, 12, 1, 0)
    assert mesh["volume"] == pytest.approx(size[0] * size[1] * size[2], rel=1e-6)
    assert mesh["lo"] == [-s / 2 for s in size] and mesh["hi"] == [s / 2 for s in size]
    assert answer.headers["Location"] == f"/v1/meshes/{mesh['hash']}"

    for headers in ({"Content-Type": "application/octet-stream"}, {"Content-Type": "text/plain"}, {}):
        if name == "json" and headers.get("Content-Type"):
            headers = {}
        again = api("POST", "/v1/meshes", body, headers)
        assert again.status == 200 and again.json == mesh


def test_the_same_arrays_are_the_same_mesh_in_every_format(api):
    shape = box((0.5, 0.75, 1.25))
    writers = [FORMATS[name] for name in ("obj", "off", "ply ascii", "ply little", "ply big", "json")]
    hashes = {api("POST", "/v1/meshes", w(*shape), {"Content-Type": t}).json["hash"] for w, t in writers}
    assert len(hashes) == 1


def test_found_by_id_hash_and_prefix(api):
    mesh = api.box((3, 3, 3))
    for key in (mesh["id"], mesh["hash"], mesh["hash"][:8], mesh["hash"][:17], mesh["hash"].upper()):
        assert api.get(f"/v1/meshes/{key}") == mesh
    assert mesh in api.get("/v1/meshes")["meshes"]
    head = api("HEAD", f"/v1/meshes/{mesh['id']}")
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 100


@pytest.mark.parametrize("key", ["0", "-1", "99999999", "ffffffffffffffffffffffffffffffff", "ffffffff", "abc", "bunny",
                                 "1.5", "%31", "184467440737095516160", "f" * 70, "1" * 200])
def test_what_is_not_there(api, key):
    for method in ("GET", "DELETE"):
        api.refused(method, f"/v1/meshes/{key}", 404, "NOT_FOUND")


def test_names(api):
    vertices, triangles = box((1, 1, 5))
    named = api.post("/v1/meshes?name=nut%20%C3%BC+1", obj(vertices, triangles))
    assert named["name"] == "nut ü 1"
    inline = api.post("/v1/meshes", {"name": "plate", "vertices": box((1, 1, 6))[0], "triangles": triangles})
    assert inline["name"] == "plate"
    both = {"name": "a", "vertices": vertices, "triangles": triangles}
    api.refused("POST", "/v1/meshes?name=b", 400, "INVALID_ARGUMENT", both, field="name")
    api.refused("POST", "/v1/meshes?nmae=b", 400, "INVALID_ARGUMENT", both)
    for bad in ("%", "%zz", "%00", "%ff", "%0a", "x" * 64):
        api.refused("POST", f"/v1/meshes?name={bad}", 400, "INVALID_ARGUMENT", both, field="name")
    api.refused("GET", "/v1/meshes?size=3", 400, "INVALID_ARGUMENT", field="size")


def test_delete_frees_the_memory(api):
    before = api.gauge("contactd_mesh_bytes")
    vertices, triangles = torus(150, 60)
    mesh = api.post("/v1/meshes", stl_binary(vertices, triangles), **{"Content-Type": "model/stl"})
    assert mesh["triangles"] == 18000
    assert api.gauge("contactd_mesh_bytes") - before == mesh["bytes"] >= 18000 * 12
    assert api("DELETE", f"/v1/meshes/{mesh['hash']}").status == 204
    assert api.gauge("contactd_mesh_bytes") == before
    for key in (mesh["hash"], mesh["hash"][:8]):
        api.refused("GET", f"/v1/meshes/{key}", 404, "NOT_FOUND")
    api.refused("DELETE", f"/v1/meshes/{mesh['id']}", 404, "STALE_HANDLE")


def test_delete_of_a_mesh_in_use(api):
    mesh = api.box((1, 7, 1))
    scene = api.scene()
    body = api.post(f"{scene}/bodies", {"mesh": mesh["id"]})
    problem = api.refused("DELETE", f"/v1/meshes/{mesh['id']}", 409, "CONFLICT")
    assert "1 bod" in problem["detail"] or "bodies" in problem["detail"]
    assert api.get(f"/v1/meshes/{mesh['id']}")["bodies"] == 1
    assert api("DELETE", f"{scene}/bodies/{body['id']}").status == 204
    assert api("DELETE", f"/v1/meshes/{mesh['id']}").status == 204


def test_defects_are_named(api):
    vertices, triangles = box()
    hole = api.refused("POST", "/v1/meshes", 422, "INVALID_MESH", obj(vertices, triangles[:-1]))
    assert "edge" in hole["detail"] and "has 1 face, expected 2" in hole["detail"] and "2 more" in hole["detail"]
    inside_out = [t[::-1] for t in triangles]
    problem = api.refused("POST", "/v1/meshes", 422, "INVALID_MESH", obj(vertices, inside_out))
    assert "inside" in problem["detail"]
    one_flipped = [triangles[0][::-1], *triangles[1:]]
    problem = api.refused("POST", "/v1/meshes", 422, "INVALID_MESH", {"vertices": vertices, "triangles": one_flipped})
    assert "edge" in problem["detail"]
    far = [*triangles[:-1], [0, 1, 8]]
    answer = api("POST", "/v1/meshes", {"vertices": vertices, "triangles": far})
    assert answer.status == 422 and answer.json["code"] in ("INVALID_MESH", "OUT_OF_RANGE")
    assert "8" in answer.json["detail"]
    api.refused("POST", "/v1/meshes", 422, "INVALID_MESH", {"vertices": vertices, "triangles": []})


def test_numbers_that_are_none(api):
    vertices, triangles = box()
    text = obj(vertices, triangles).replace(b"v 0.5 ", b"v nan ", 1)
    problem = api("POST", "/v1/meshes", text).json
    assert problem["code"] in ("NON_FINITE", "PARSE_ERROR"), problem
    vertices[3][1] = 1e300  # fits a double, not the float that is kept
    api.refused("POST", "/v1/meshes", 422, "NON_FINITE", {"vertices": vertices, "triangles": triangles})


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"\0" * 1000, b"ply\n", b"OFF\n8 12", b"solid x\n", b"v 1 2 3\nf 1 2", bytes(range(256)) * 9],
    ids=repr,
)
def test_garbage_is_refused(api, body):
    for content_type in ("application/octet-stream", "model/obj", "model/ply", "model/stl", "model/off"):
        answer = api("POST", "/v1/meshes", body, {"Content-Type": content_type})
        assert answer.status in (400, 422), answer.body
        assert answer.json["code"] in ("PARSE_ERROR", "INVALID_MESH", "MALFORMED", "NON_FINITE"), answer.json


@pytest.mark.parametrize(
    "text, status, code, field",
    [
        ('{"vertices": [[0,0,0]]}', 400, "INVALID_ARGUMENT", "triangles"),
        ('{"vertices": [[0,0]], "triangles": []}', 422, "WRONG_LENGTH", "vertices[0]"),
        ('{"vertices": [[0,0,"1"]], "triangles": []}', 400, "INVALID_ARGUMENT", "vertices[0][2]"),
        ('{"vertices": [[0,0,1e999]], "triangles": []}', 422, "OUT_OF_RANGE", "vertices[0][2]"),
        ('{"vertices": [[0,0,NaN]], "triangles": []}', 400, "MALFORMED", "vertices[0][2]"),
        ('{"vertices": [], "triangles": [[0,1,-2]]}', 400, "INVALID_ARGUMENT", "triangles[0][2]"),
        ('{"vertices": [], "triangles": [[0,1,2.5]]}', 400, "INVALID_ARGUMENT", "triangles[0][2]"),
        ('{"vertices": [], "triangles": [], "uv": []}', 400, "INVALID_ARGUMENT", "uv"),
        ('{"vertices": [], "vertices": [], "triangles": []}', 400, "MALFORMED", None),
        ("[]", 400, "MALFORMED", None),
        ("{", 400, "MALFORMED", None),
        ("", 400, "MALFORMED", None),
        ('{"name": "\\u0000"}', 400, "MALFORMED", None),
        ('{"name": "\\ud800"}', 400, "MALFORMED", None),
        ('{"vertices": ' + "[" * 5000, 400, "MALFORMED", None),
        ('{"vertices": 123456789012345678901234567890}', 422, "OUT_OF_RANGE", "vertices"),
    ],
)
def test_json_that_is_wrong(api, text, status, code, field):
    headers = {"Content-Type": "application/json"}
    problem = api.refused("POST", "/v1/meshes", status, code, text.encode(), headers)
    if field:
        assert problem["field"] == field, problem


def test_invalid_utf8_in_json(api):
    headers = {"Content-Type": "application/json"}
    api.refused("POST", "/v1/meshes", 400, "MALFORMED", b'{"name": "\xff\xfe"}', headers)


def test_a_bomb_of_values_is_refused_before_it_is_parsed(api):
    body = b'{"vertices":[' + b"{}," * 2_000_000 + b"{}]}"
    problem = api.refused("POST", "/v1/meshes", 413, "TOO_LARGE", body, {"Content-Type": "application/json"})
    assert "PLY" in problem["detail"]


@pytest.mark.parametrize("content_type", ["multipart/form-data", "text/html", "model/step", ""])
def test_types_that_are_not_taken(api, content_type):
    body = obj(*box())
    problem = api("POST", "/v1/meshes", body, {"Content-Type": content_type}).json
    assert (problem["status"], problem["code"], problem["field"]) == (415, "UNSUPPORTED", "Content-Type")
    assert "model/obj" in problem["detail"]


# ---- bodies over the limit ----


@pytest.fixture(scope="module")
def small(binaries, tmp_path_factory):
    from conftest import Server

    server = Server(tmp_path_factory.mktemp("small"), ("--max-message", "128K")).start()
    yield server
    server.finish()


def test_too_large_by_length(small):
    api = Api(small.http)
    for size in (131073, 200_000, 390_000):
        problem = api.refused("POST", "/v1/meshes", 413, "TOO_LARGE", b"v" * size)
        assert "131072" in problem["detail"] and "--max-message" in problem["detail"]
    assert api("POST", "/v1/meshes", b"v" * 131072).status == 400  # as large as allowed: only no mesh


def test_too_large_by_counting_chunks(small):
    api = Api(small.http)
    pieces = (b"v" * 1000 for _ in range(132))
    api.connection.request("POST", "/v1/meshes", body=pieces, encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
    answer = api.connection.getresponse()
    assert answer.status == 413 and json.loads(answer.read())["code"] == "TOO_LARGE"
    body = obj(*box())
    api.connection.request("POST", "/v1/meshes", body=iter([body[:10], body[10:]]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
    answer = api.connection.getresponse()
    assert answer.status in (200, 201) and json.loads(answer.read())["triangles"] == 12


def raw(server, text: bytes, timeout: float = 20 * SLOW) -> bytes:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


def test_endless_chunks_are_cut(small):
    with socket.create_connection(("127.0.0.1", small.http_port), 20 * SLOW) as connection:
        connection.sendall(b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"8000\r\n" + b"v" * 0x8000 + b"\r\n"
        with pytest.raises(OSError):
            for _ in range(10_000):
                connection.sendall(chunk)
    assert Api(small.http).get("/healthz") == {"status": "ok"}


def test_expect_is_answered_before_the_body(small):
    with socket.create_connection(("127.0.0.1", small.http_port), 20 * SLOW) as connection:
        connection.sendall(b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n"
                           b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_length_required(small):
    answer = raw(small, b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 411 ") and b'"MALFORMED"' in answer and b"Content-Length" in answer


def test_two_lengths_are_refused(small):
    answer = raw(small, b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_memory_limit(make_server):
    api = Api(make_server("--mesh-memory", "1M").http)
    body = stl_binary(*torus(300, 100))
    problem = api.refused("POST", "/v1/meshes", 422, "LIMIT_EXCEEDED", body, {"Content-Type": "model/stl"})
    assert "1048576" in problem["detail"] or "MiB" in problem["detail"] or "--mesh-memory" in problem["detail"]
    assert api.box()["triangles"] == 12


def glb(data: bytes) -> tuple[dict, np.ndarray, np.ndarray]:
    """Description, positions and triangles of a file of one mesh, held against glTF 2.0's layout."""
    magic, version, length, json_length, json_kind = struct.unpack_from("<4sIII4s", data)
    assert (magic, version, length, json_kind, json_length % 4) == (b"glTF", 2, len(data), b"JSON", 0)
    document = json.loads(data[20 : 20 + json_length])
    binary_length, kind = struct.unpack_from("<I4s", data, 20 + json_length)
    binary = data[28 + json_length :]
    assert kind == b"BIN\0" and len(binary) == binary_length == document["buffers"][0]["byteLength"]
    (primitive,) = document["meshes"][0]["primitives"]
    arrays = []
    for index, dtype in ((primitive["attributes"]["POSITION"], "<f4"), (primitive["indices"], "<u4")):
        accessor = document["accessors"][index]
        view = document["bufferViews"][accessor["bufferView"]]
        part = binary[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
        arrays.append(np.frombuffer(part, dtype).reshape(-1, 3))
        assert arrays[-1].size == accessor["count"] * {"VEC3": 3, "SCALAR": 1}[accessor["type"]]
    positions, triangles = arrays
    accessor = document["accessors"][primitive["attributes"]["POSITION"]]
    assert np.float32(accessor["min"]).tolist() == positions.min(0).tolist() and np.float32(accessor["max"]).tolist() == positions.max(0).tolist()
    return document, positions, triangles


def enclosed(positions, triangles) -> float:
    a, b, c = np.moveaxis(positions.astype(float)[triangles], 1, 0)
    return np.einsum("ij,ij->", a, np.cross(b, c)) / 6


def test_geometry(api):
    mesh = api.box((2, 3, 4))
    answer = api("GET", f"/v1/meshes/{mesh['hash']}/geometry")
    assert answer.status == 200 and answer.headers["ETag"] == f'"{mesh["hash"]}"'
    assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    document, positions, triangles = glb(answer.body)
    assert document["nodes"][0]["translation"] == [0, 0, 0]
    assert len(triangles) == 12 and enclosed(positions, triangles) == pytest.approx(24)
    assert api("GET", f"/v1/meshes/{mesh['id']}/geometry").headers["Cache-Control"] == "no-store"
    assert api("GET", f"/v1/meshes/{mesh['hash'][:9]}/geometry").body == answer.body
    assert api("GET", "/v1/meshes/12345678901/geometry").status == 404


def test_geometry_of_many_pieces_and_far_away(api):
    """Longer than what is sent at once, and in double precision about an origin."""
    vertices, triangles = torus(200, 100)
    far = (np.asarray(vertices) + [5e5 + 0.1, 5e6, 0.3]).tolist()
    mesh = api("POST", "/v1/meshes", {"vertices": far, "triangles": np.asarray(triangles).tolist()}).json
    document, positions, found = glb(api("GET", f"/v1/meshes/{mesh['id']}/geometry").body)
    assert len(found) == mesh["triangles"] and enclosed(positions, found) == pytest.approx(mesh["volume"], rel=1e-5)
    assert positions.min(0) + document["nodes"][0]["translation"] == pytest.approx(np.array(mesh["lo"]), abs=1e-6)
