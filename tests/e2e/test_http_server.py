"""The HTTP server itself: resources and methods, the OpenAPI document, the page, who may ask, slow and broken clients,
start and end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import http.client
import json
import os
import re
import signal
import socket
import time
import urllib.parse

import numpy as np
import pytest
from conftest import ROOT, SLOW, free_port, wait_until
from http_api import OPENAPI, Api, box, obj, resolve, stl_binary, torus

FACET = np.dtype([("normal", "<3f4"), ("corners", "<f4", (3, 3)), ("attributes", "<u2")])  # of a binary STL file
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


@pytest.fixture
def api(server) -> Api:
    return Api(server.http)


# ---- resources ----


def filled(template: str) -> str:
    return re.sub(r"\{\w+\}", "1", template)


@pytest.mark.parametrize("template", OPENAPI["paths"])
def test_methods_are_those_of_the_document(api, template):
    documented = {m.upper() for m in OPENAPI["paths"][template] if m != "parameters"}
    documented |= {"HEAD"} & {"HEAD" if "GET" in documented else ""}
    for method in METHODS:
        if (method, template) == ("POST", "/v1/drain"):
            continue  # it ends the server; test_operators.py and test_drain.py ask for it
        answer = api(method, filled(template), check=False)
        if method in documented:
            assert answer.status not in (405, 501), (method, answer)
            continue
        assert answer.status == 405, (method, template, answer)
        assert {m.strip() for m in answer.headers["Allow"].split(",")} == documented
        if method != "HEAD":
            assert answer.json["code"] == "METHOD_NOT_ALLOWED" and answer.json["status"] == 405


@pytest.mark.parametrize("template", [t for t, item in OPENAPI["paths"].items() if "get" in item])
def test_head_says_what_get_says(api, template):
    path = filled(template)
    get, head = api("GET", path), api("HEAD", path)
    assert head.status == get.status and head.body == b"" and get.body
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    if template not in ("/metrics", "/v1/status"):  # whose texts change
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v2/status", "/v1/status/", "//", "/v1//meshes", "/v1/scenes/1/", "/index.html", "/../etc/passwd",
     "/v1/status%00", "/%76%31/status", "/" + "x" * 5000, "*"],
)
def test_no_such_resource(api, path):
    answer = api("GET", path, check=False)
    assert answer.status == 404 and answer.json["code"] == "NOT_FOUND"
    assert answer.headers.get_content_type() == "application/problem+json"


@pytest.mark.parametrize("path", [p for p, item in OPENAPI["paths"].items() if "{" not in p and "get" in item])
def test_unknown_query_parameters_are_refused(api, path):
    api.refused("GET", path + "?verbose=1", 400, "INVALID_ARGUMENT", field="verbose")


def test_json_only(api):
    scene = api.scene()
    takers = (("/v1/scenes", "POST"), (scene, "PATCH"), (f"{scene}/bodies", "POST"), (f"{scene}/step", "POST"))
    for path, method in takers:
        for content_type in ("text/html", "text/plain", "model/obj", "application/x-www-form-urlencoded",
                             "multipart/form-data; boundary=x"):
            api.refused(method, path, 415, "UNSUPPORTED", b"{}", {"Content-Type": content_type}, "Content-Type")
        answer = api(method, path, b"{}")  # a body without a type is taken as JSON
        assert answer.status in (200, 201, 400), answer.body


def test_unknown_fields_are_refused_before_they_are_read(api):
    """At the first, however many follow, and whatever hangs below it."""
    many = "{" + ",".join(f'"k{i}":1' for i in range(100_000)) + "}"
    assert api.refused("POST", "/v1/scenes", 400, "INVALID_ARGUMENT", many.encode(), field="k0")["detail"].startswith("unknown field k0")
    # What follows is not even parsed: it is no JSON.
    for path in ("/v1/scenes", api.scene() + "/step", "/v1/overlap"):
        api.refused("POST", path, 400, "INVALID_ARGUMENT", b'{"k0": [' + b"[]," * 1000 + b"}", field="k0")
    scene = api.scene()
    deep = '{"updates": [{' + ",".join(f'"k{i}":1' for i in range(100_000)) + "}]}"
    problem = api.refused("POST", scene + "/step", 400, "MALFORMED", deep.encode())
    assert "more than 64 fields" in problem["detail"] and problem["field"].startswith("updates[0].k"), problem
    assert api("POST", "/v1/scenes", b'{"n\\u0061me": "escaped"}').json["name"] == "escaped"


@pytest.mark.parametrize("name", ["\u202egpj.exe", "a\u200bb", "a\u2028b", "\u2066a", "\ufeffa", "\u00ada", "\u3164", "\U000e0041a", "a\u0085"])
def test_names_are_shown_as_they_are(api, name):
    code = f"U+{next(ord(c) for c in name if c not in 'ab'):04X}"
    for path, body in (("/v1/scenes", {"name": name}), ("/v1/meshes", {"name": name, "vertices": box()[0], "triangles": box()[1]})):
        problem = api.refused("POST", path, 400, "INVALID_ARGUMENT", body, field="name")
        assert code in problem["detail"] and name not in problem["detail"], problem
    query = urllib.parse.quote(name)
    problem = api.refused("POST", f"/v1/meshes?name={query}", 400, "INVALID_ARGUMENT", obj(*box()), field="name")
    assert code in problem["detail"] and name not in problem["detail"]
    for good in ("\u05d0\u05d1", "naïve – 名前", "🤖"):
        assert api.post("/v1/scenes", {"name": good})["name"] == good


# ---- the document ----


def test_the_document_is_served_as_it_is_in_the_tree(api):
    assert api.get("/openapi.json") == OPENAPI
    assert (ROOT / "proto" / "openapi.json").read_bytes() == api("GET", "/openapi.json").body


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_is_sound():
    assert OPENAPI["openapi"].startswith("3.1.") and OPENAPI["info"]["version"]
    used = set(references(OPENAPI))
    for reference in used:
        assert resolve({"$ref": reference})
    schemes = {name for requirement in OPENAPI["security"] for name in requirement}
    assert schemes == set(OPENAPI["components"]["securitySchemes"])  # these are named, not referred to
    for kind, items in OPENAPI["components"].items():
        for name in items if kind != "securitySchemes" else ():
            assert f"#/components/{kind}/{name}" in used, f"{kind}/{name} is used nowhere"
    identifiers = []
    for path, item in OPENAPI["paths"].items():
        named = {p["name"] for p in item.get("parameters", []) if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), path
        for method, operation in item.items():
            if method == "parameters":
                continue
            identifiers.append(operation["operationId"])
            assert operation["summary"] and operation["tags"][0] in {t["name"] for t in OPENAPI["tags"]}
            assert any(code.startswith("2") for code in operation["responses"])
            assert "default" in operation["responses"]
            has_body = method in ("post", "patch") and path != "/v1/drain"
            assert ("requestBody" in operation) == has_body, (method, path)
    assert len(set(identifiers)) == len(identifiers)


def test_the_document_validates():
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(OPENAPI)


def test_examples_do_what_they_say(api):
    """Every body of a request has one, and the server takes it."""
    bodies = {}
    for path, item in OPENAPI["paths"].items():
        for method, operation in item.items():
            if method != "parameters" and "requestBody" in operation:
                bodies[operation["operationId"]] = operation["requestBody"]["content"]["application/json"]["example"]
    mesh = api("POST", "/v1/meshes", bodies.pop("addMesh")).json["id"]
    scene = f"/v1/scenes/{api.post('/v1/scenes', bodies.pop('openScene'))['id']}"
    body = bodies.pop("addBody")
    ids = [api.post(f"{scene}/bodies", {**body, "mesh": mesh})["id"] for _ in range(2)]
    step = bodies.pop("stepScene")
    step["updates"][0]["body"] = ids[0]
    assert api.post(f"{scene}/step", step, 200)["contacts"][0]["volume"] > 0
    overlap = bodies.pop("overlap")
    overlap["a"]["mesh"] = overlap["b"]["mesh"] = mesh
    assert api.post("/v1/overlap", overlap, 200)["contacts"][0]["volume"] > 0
    settings = bodies.pop("configureScene")
    assert settings.items() <= api("PATCH", scene, settings).json.items()
    material = bodies.pop("changeBody")
    assert material["material"].items() <= api("PATCH", f"{scene}/bodies/{ids[0]}", material).json.items()
    assert not bodies


# ---- status, metrics, health ----


def test_status_and_devices(api, server):
    status = api.get("/v1/status")
    assert status["server"].startswith("contactd ") and status["ready"] and status["ready_reason"] == ""
    assert status["backend"] == "cpu" and status["threads"] >= 1 and status["uptime_s"] > 0 and int(status["epoch"]) > 0
    (device,) = api.get("/v1/devices")["devices"]
    assert device["backend"] == "cpu" and device["simd"] in device["simd_available"]
    assert device["index"] == 0 and not device["lost"] and device["memory_budget_bytes"] == 0
    assert status["devices"][0]["device"] == device["device"] == status["device"]
    assert status["methods"] == ["ldi", "exact", "ebpi", "voxtree"]
    schemas = api.get("/openapi.json")["components"]["schemas"]
    assert status["auto_method"] in status["methods"]
    for name, more in (("SceneSettings", {"auto"}), ("NewScene", {"auto"}), ("Scene", {"auto"}), ("StepResult", set())):
        assert set(schemas[name]["properties"]["method"]["enum"]) >= {*status["methods"], *more}
    assert set(schemas["Scene"]["properties"]["running_method"]["enum"]) >= set(status["methods"])
    assert status["max_resolution"] == 4096 and status["max_message_bytes"] == 256 << 20


def test_totals_follow_what_is_done(fresh_server):
    api = Api(fresh_server.http)
    before = api.get("/v1/status")
    mesh = api.box()
    scene = api.scene(resolution=8)
    for _ in range(2):
        api.post(f"{scene}/bodies", {"mesh": mesh["id"]})
    api.post(f"{scene}/step", {}, 200)
    after = api.get("/v1/status")
    grown = {k: after[k] - before[k] for k in ("meshes", "scenes", "bodies", "steps", "contacts")}
    assert grown == {"meshes": 1, "scenes": 1, "bodies": 2, "steps": 1, "contacts": 1}
    assert after["devices"][0]["scenes"] - before["devices"][0]["scenes"] == 1
    assert after["devices"][0]["triangles"] - before["devices"][0]["triangles"] == 2 * mesh["triangles"]
    assert after["mesh_bytes"] - before["mesh_bytes"] == mesh["bytes"] and after["scene_bytes"] > before["scene_bytes"]
    assert api("DELETE", scene).status == 204 and api("DELETE", f"/v1/meshes/{mesh['id']}").status == 204
    end = api.get("/v1/status")
    assert all(end[k] == before[k] for k in ("meshes", "scenes", "bodies", "mesh_bytes", "scene_bytes"))


LINE = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (NaN|[+-]?(Inf|[0-9.]+(e[+-]?\d+)?))')


def test_metrics_are_prometheus_text(api):
    answer = api("GET", "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n")
    declared = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
        elif not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            name = match[1]
            assert name.startswith(("contactd_", "process_"))
            assert name in declared or re.sub(r"_(bucket|sum|count)$", "", name) in declared, line
            assert "scene=" not in line
    for phase in ("queue", "upload", "broadphase", "raster", "span", "contact", "download"):
        assert f'contactd_phase_seconds_count{{phase="{phase}"}}' in text
        assert f'contactd_phase_wall_seconds_count{{phase="{phase}"}}' in text
    assert api.gauge("contactd_ready") == 1


def test_requests_and_errors_are_counted(api):
    requests = api.gauge('contactd_requests_total{protocol="http"}')
    sent = api.gauge('contactd_sent_bytes_total{protocol="http"}')
    api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {"resolution": 0})
    errors = api.gauge('contactd_errors_total{code="OUT_OF_RANGE"}')
    api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {"resolution": 0})
    assert api.gauge('contactd_errors_total{code="OUT_OF_RANGE"}') == errors + 1
    assert api.gauge('contactd_requests_total{protocol="http"}') == requests + 6
    assert api.gauge('contactd_sent_bytes_total{protocol="http"}') > sent


def test_health(api):
    assert api.get("/healthz") == {"status": "ok"}
    assert api.get("/readyz") == {"ready": True}


# ---- the page ----


def test_the_page_needs_nothing_from_elsewhere(api):
    web = ROOT / "server" / "web"
    modules = [f"/page/{path.name}" for path in sorted((web / "page").glob("*.js"))]
    scripts = {path: api("GET", path).body.decode() for path in ("/page.js", *modules)}
    kinds = {"/": "text/html", "/docs": "text/html", "/page.css": "text/css", "/page/three.js": "text/javascript"} | dict.fromkeys(scripts, "text/javascript")
    for path, kind in kinds.items():
        answer = api("GET", path)
        assert answer.status == 200 and answer.headers.get_content_type() == kind
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["X-Frame-Options"] == "DENY" and answer.headers["Referrer-Policy"] == "no-referrer"
        text = answer.body.decode()
        if path != "/page/three.js":  # whose comments and messages name pages
            assert "//" not in re.sub(r"^\s*//.*$|\s// .*$", "", text, flags=re.M).replace("http://www.w3.org/", "")
            assert text.count("\n") <= 300
        for imported in re.findall(r'(?:from|import\() ?"([^"]+)"', text) if path in scripts else ():
            assert urllib.parse.urljoin(path, imported) in kinds, (path, imported)
    api.refused("GET", "/page/none.js", 404, "NOT_FOUND", field="module")
    for path in ("/", "/docs"):
        check_html(path, api("GET", path).body.decode(), scripts)


def check_html(path, html, scripts):
    assert '<html lang="en">' in html and "<title>" in html and 'name="viewport"' in html
    assert " style=" not in html and " onclick=" not in html and "<style" not in html  # the policy would refuse them
    identifiers = re.findall(r'id="([\w-]+)"', html)
    assert len(set(identifiers)) == len(identifiers)
    own = {"/page/docs.js"}
    for name, script in scripts.items():
        if (name in own) != (path == "/docs"):
            continue
        for used in re.findall(r'byId\("([\w-]+)"\)', script):
            assert used in identifiers, (name, used)


# ---- who may ask ----


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:8080", "sim.localhost"])
def test_hosts_of_this_machine(api, host):
    assert api("GET", "/healthz", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "192.168.1.2", "localhost.evil.example", "0.0.0.0"]
)
def test_other_hosts_are_refused_on_loopback(api, host):
    for method, path in (("GET", "/v1/status"), ("POST", "/v1/scenes"), ("GET", "/"), ("GET", "/nothing")):
        answer = api(method, path, b"{}" if method == "POST" else None, {"Host": host}, check=path != "/nothing")
        assert answer.status == 403 and answer.json["field"] == "Host", answer.body


@pytest.mark.parametrize("host", [":", "a b", "localhost:x", "[::1"])
def test_hosts_that_are_none(api, host):
    assert api("GET", "/v1/status", headers={"Host": host}).status == 400


def test_cross_site_requests_change_nothing(api, server):
    scene = api.scene()
    own = f"http://127.0.0.1:{server.http_port}"
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "same-site"}, {"Origin": f"http://127.0.0.1:{free_port()}"},
                    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}):
        for method, path, body in (("POST", "/v1/scenes", b"{}"), ("PATCH", scene, b"{}"), ("DELETE", scene, None),
                                   ("POST", "/v1/meshes", b"x"), ("POST", f"{scene}/step", b"{}")):
            problem = api.refused(method, path, 403, "FORBIDDEN", body, headers)
            assert "site" in problem["title"]
        assert api("GET", "/v1/status", headers=headers).status == 200  # and no CORS header: check_documented looks
    assert api("PATCH", scene, b"{}", {"Origin": own, "Sec-Fetch-Site": "same-origin"}).status == 200
    assert api("PATCH", scene, b"{}", {"Sec-Fetch-Site": "none"}).status == 200
    preflight = api("OPTIONS", "/v1/scenes", headers={"Origin": own, "Access-Control-Request-Method": "POST"})
    assert preflight.status == 405


# ---- connections ----


def raw(server, text: bytes, timeout: float = 20) -> bytes:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout * SLOW) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def test_one_connection_many_requests(api):
    api.get("/healthz")
    first = api.connection.sock.getsockname()
    for _ in range(20):
        api.refused("GET", "/nothing", 404, "NOT_FOUND")
        api.refused("POST", "/v1/scenes", 422, "OUT_OF_RANGE", {"resolution": 0})
    assert api.connection.sock.getsockname() == first


def test_pipelined_requests(server):
    text = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3
    text += b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = raw(server, text)
    assert answer.count(b"HTTP/1.1 200 ") == 4 and answer.count(b'{"status":"ok"}') == 3 and b'{"ready":true}' in answer


def test_a_connection_ends_when_the_client_has_closed_its_side(server):
    for i in range(60):
        started = time.monotonic()
        path = b"/healthz" if i % 2 else b"/nothing"
        text = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert raw(server, text).startswith(b"HTTP/1.1 ")
        assert time.monotonic() - started < 5 * SLOW


def test_the_form_that_proxies_use(server):
    answer = raw(server, b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


HEAD = b"POST /v1/scenes HTTP/1.1\r\nHost: localhost\r\n"
INNER = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % (2 + len(INNER))


@pytest.mark.parametrize(
    "text",
    [HEAD + b"Content-Length: 2\r\n" + LENGTH + b"\r\n{}" + INNER,
     HEAD + LENGTH + b"Content-Length: 2\r\n\r\n{}" + INNER,
     HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + INNER,
     HEAD + b"Content-Length: 2, 2\r\n\r\n{}" + INNER,
     HEAD + b"Content-Length: +2\r\n\r\n{}" + INNER,
     HEAD + b"Content-Length : 2\r\n\r\n{}" + INNER,
     HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + INNER,
     HEAD + b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n0\r\n\r\n" + INNER,
     HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + INNER,
     HEAD + b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + INNER,
     HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n{}" + INNER,
     HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + INNER,
     HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET http://evil.example/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET https://evil.example/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET http://evil.example@localhost/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET http://" + b"a" * 300 + b"/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET /v1/status?a\tb HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\nHost: localhost\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nX: a\0b\r\nHost: localhost\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\nY: z\r\n\r\n" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX(y): z\r\n\r\n" + INNER,
     HEAD + b"Content-: 2\r\n Length\r\n\r\n{}" + INNER,
     b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n" + INNER],
    ids=range(31),
)
def test_a_doubtful_header_is_refused_and_ends_the_connection(server, api, text):
    """A proxy may read it differently: nothing of it runs, and what follows is not read as a request (RFC 9112)."""
    before = api.get("/v1/scenes")
    answers = [raw(server, text)]
    # Split anywhere, it is refused as well.
    for at in (len(text) // 3, text.index(b"\n") + 1, len(text) - len(INNER) - 1):
        with socket.create_connection(("127.0.0.1", server.http_port), 20 * SLOW) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(text[:at])
                api.get("/healthz")
                connection.sendall(text[at:])
                while piece := connection.recv(65536):
                    received += piece
            answers.append(received)
    # What the server did not read resets the connection, which may overtake the answer.
    assert any(answers)
    for answer in filter(None, answers):
        statuses = set(re.findall(rb"HTTP/1\.1 (\d+)", answer))
        assert statuses in ({b"400"}, {b"501"}), answer[:1000]  # libmicrohttpd's own refusals may have their header twice
        assert b"\r\nConnection: close\r\n" in answer
    assert len(api.get("/v1/scenes")["scenes"]) == len(before["scenes"])


def test_a_body_in_chunks_is_the_last_on_its_connection(fresh_server):
    """Where chunks end is read by lenient rules, so what follows is not taken for a request."""
    library = ctypes.CDLL("libmicrohttpd.so.12")
    library.MHD_get_version.restype = ctypes.c_char_p
    is_0 = library.MHD_get_version().startswith(b"0.")  # 1.0 refuses extensions of chunks, and ends a connection without a word
    for extension in (b"", b";x=y"):
        text = HEAD + b"Transfer-Encoding: chunked\r\n\r\n1" + extension + b"\r\n{\r\n1\r\n}\r\n0\r\n\r\n" + INNER
        answer = raw(fresh_server, text)  # empty: what the server did not read has reset the connection before it was there
        statuses = re.findall(rb"HTTP/1\.1 (\d+)", answer)
        expected = b"201" if is_0 or not extension else b"400"
        assert not answer or statuses == [expected] and b"\r\nConnection: close\r\n" in answer
    huge = HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"
    with socket.create_connection(("127.0.0.1", fresh_server.http_port), 20 * SLOW) as connection:
        connection.sendall(huge)
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 ") and connection.recv(1) == b"" or not (answer or is_0)
    assert len(Api(fresh_server.http).get("/v1/scenes")["scenes"]) == 1 + is_0


@pytest.mark.parametrize(
    "text",
    [b"", b"\r\n\r\n", b"\0" * 4096, b"\xff\xfe" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
     b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\nhello",
     b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
     b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\nabc",
     b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551617\r\n\r\nabc",
     b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
     b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300)],
    ids=range(17),
)
def test_garbage(server, text):
    try:
        answer = raw(server, text)
        assert not answer.startswith(b"HTTP/1.1 2"), answer[:100]
    except OSError:
        pass  # cut while it was still being sent
    assert Api(server.http).get("/healthz") == {"status": "ok"}


def test_a_client_that_leaves_in_the_middle(server, api):
    before = api.get("/v1/status")["meshes"]
    body = stl_binary(*torus(100, 50))
    head = b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for cut in (0, 1, len(body) // 2, len(body) - 1):
        with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
            connection.sendall(head + body[:cut])
    with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
        connection.sendall(head + body)  # whole, but the client leaves before the answer: it may be ended, or be done by then
    deadline = time.monotonic() + 10 * SLOW
    while api.get("/v1/status")["running"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert api.get("/v1/status")["meshes"] in (before, before + 1)
    assert api("POST", "/v1/meshes", body).status in (200, 201)
    assert api.get("/v1/status")["meshes"] == before + 1


def test_slow_clients_are_cut_and_delay_no_other(fresh_server):
    """Headers byte by byte: each byte is in time, the whole is not."""
    started = time.monotonic()
    answered_beside_all = 0
    slow = [socket.create_connection(("127.0.0.1", fresh_server.http_port)) for _ in range(20)]
    gone = set()
    api = Api(fresh_server.http)
    text = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000
    for i in range(len(text)):
        assert time.monotonic() - started < 60 * SLOW, f"only {len(gone)} of {len(slow)} were cut"
        for k, connection in enumerate(slow):
            if k in gone:
                continue
            try:
                connection.sendall(text[i : i + 1])
                connection.setblocking(False)
                if connection.recv(1) == b"":
                    gone.add(k)
            except BlockingIOError:
                pass
            except OSError:
                gone.add(k)
            finally:
                connection.setblocking(True)
        assert api.get("/healthz") == {"status": "ok"}
        answered_beside_all += not gone
        if gone:
            assert time.monotonic() - started > 8
        if len(gone) == len(slow):
            break
        time.sleep(0.5)
    for connection in slow:
        connection.close()
    assert len(gone) == len(slow) and answered_beside_all


def test_more_connections_than_there_are_places(fresh_server):
    many = []
    for _ in range(300):
        connection = socket.socket()
        connection.settimeout(5 * SLOW)
        try:
            connection.connect(("127.0.0.1", fresh_server.http_port))
            many.append(connection)
        except OSError:
            break
    for connection in many:
        connection.close()
    deadline = time.monotonic() + 10 * SLOW
    while True:
        try:
            assert Api(fresh_server.http, 5 * SLOW).get("/healthz") == {"status": "ok"}
            return
        except OSError:
            assert time.monotonic() < deadline, "the places did not come free"
            time.sleep(0.05)


def large_meshes(number: int, offset: int) -> list[bytes]:
    """STL files of 300,000 triangles each, no two of them with the same content."""
    file = stl_binary(*torus(500, 300))
    facets = np.frombuffer(file, FACET, offset=84)
    files = []
    for k in range(offset, offset + number):
        scaled = facets.copy()
        scaled["corners"][:, :, 2] *= 1 + k / 64
        files.append(file[:84] + scaled.tobytes())
    return files


def begin_upload(server, file: bytes) -> http.client.HTTPConnection:
    """Sends all of a mesh but its last byte."""
    connection = Api(server.http, 60 * SLOW).connection
    connection.putrequest("POST", "/v1/meshes")
    connection.putheader("Content-Type", "model/stl")
    connection.putheader("Content-Length", str(len(file)))
    connection.endheaders()
    connection.send(file[:-1])
    return connection


def requests_beside(server, api, scene: str, files: list[bytes]) -> int:
    """Uploads the files, and makes three requests once all have arrived. Returns how many meshes are done by then."""
    received = 'contactd_received_bytes_total{protocol="http"}'
    before, meshes = api.gauge(received), api.get("/v1/status")["meshes"]
    uploads = [begin_upload(server, file) for file in files]
    size = sum(map(len, files))
    wait_until(lambda: api.gauge(received) - before >= size - len(files), "all uploads but their last bytes")
    for upload, file in zip(uploads, files):
        upload.send(file[-1:])  # so that all validations begin at about the same time
    wait_until(lambda: api.gauge(received) - before >= size, "the last bytes of the uploads")
    api.get("/healthz")
    api.get("/v1/meshes")
    api.post(f"{scene}/step", {}, 200)
    done = api.get("/v1/status")["meshes"] - meshes
    for upload in uploads:
        answer = upload.getresponse()
        assert answer.status == 201 and json.loads(answer.read())["triangles"] == 300_000
    return done


def test_a_long_validation_delays_no_other(server):
    """Eight large meshes wait for the two mesh workers. Scenes, steps and health do not wait behind them: three requests
    that come after all the meshes are answered before half of these are done.

    If the requests waited in one queue with the meshes, all meshes would be begun before them: even of five workers, at
    least four meshes would then be done. On a busy machine the requests may be slow as well, so there are more tries.
    """
    number, tries = 8, 4
    api = Api(server.http)
    scene = api.scene(resolution=8)
    done = []
    while len(done) < tries and not (done and done[-1] < number // 2):
        done.append(requests_beside(server, api, scene, large_meshes(number, number * len(done))))
    assert done[-1] < number // 2, f"of {number} meshes so many were done before the requests: {done}"


def test_parallel_clients(server):
    """Each makes, steps and closes its own; together they meet in one mesh that all share."""

    def client(k: int) -> int:
        api = Api(server.http)
        shared = api.box((1, 1, 9))
        own = api.post("/v1/meshes", obj(*box((1, 1, 10 + k))))
        for i in range(6):
            scene = api.scene(resolution=4 + k, name=f"client {k}")
            a = api.post(f"{scene}/bodies", {"mesh": shared["hash"]})
            api.post(f"{scene}/bodies", {"mesh": own["id"], "pose": [1, 0, 0, 0.5, 0, 1, 0, 0, 0, 0, 1, 0]})
            api("PATCH", scene, {"resolution": 5 + i})
            result = api.post(f"{scene}/step", {"want": ["gradient"]}, 200)
            assert result["rays"] == 3 * (5 + i) ** 2 and len(result["contacts"]) == 1
            api.get(f"{scene}/stats"), api.get("/v1/scenes"), api("GET", "/metrics")
            assert api("DELETE", f"{scene}/bodies/{a['id']}").status == 204
            assert api("DELETE", scene).status == 204
        assert api("DELETE", f"/v1/meshes/{own['id']}").status == 204
        return k

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(client, range(8))) == list(range(8))


# ---- start and end ----


def test_second_server_on_the_port(server, make_server):
    second = make_server(start=False)
    second.http_port = server.http_port
    second.start(wait=False)
    assert second.wait() != 0
    log = second.logs()
    assert f"127.0.0.1:{server.http_port}" in log and "--http" in log and "in use" in log
    assert Api(server.http).get("/healthz") == {"status": "ok"}


@pytest.mark.parametrize(
    "address, word",
    [
        ("localhost", "HOST:PORT"),
        ("127.0.0.1:99999", "HOST:PORT"),
        ("::1:80", "HOST:PORT"),
        ("no.such.host.invalid:80", "no.such.host.invalid"),
        ("203.0.113.7:8080", "no address of this machine"),
    ],
)
def test_addresses_that_cannot_be(make_server, address, word):
    server = make_server("--http", address, start=False).start(wait=False)
    assert server.wait(20) != 0
    assert word in server.logs() and "--http" in server.logs(), server.logs()


def test_port_zero_takes_a_free_one_and_says_which(make_server):
    server = make_server("--http", "127.0.0.1:0", start=False).start(wait=False)
    deadline = time.monotonic() + 10 * SLOW
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", server.logs())):
        assert server.alive() and time.monotonic() < deadline, server.logs()
        time.sleep(0.02)
    server.http_port = int(found[1])
    server.wait_ready()
    assert Api(server.http).get("/readyz") == {"ready": True}


def test_ipv6(make_server):
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    port = free_port()
    server = make_server("--http", f"[::1]:{port}", start=False).start(wait=False)
    deadline = time.monotonic() + 10 * SLOW
    while f"http://[::1]:{port}" not in server.logs():
        assert server.alive() and time.monotonic() < deadline, server.logs()
        time.sleep(0.02)
    assert Api(f"http://[::1]:{port}").get("/healthz") == {"status": "ok"}


def test_http_can_be_off(make_server):
    server = make_server("--http", "off", start=False).start(wait=False)
    deadline = time.monotonic() + 10 * SLOW
    while server.stream not in server.logs():
        assert server.alive() and time.monotonic() < deadline, server.logs()
        time.sleep(0.02)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.http_port), 1)


def test_sigterm_ends_it_with_connections_open(make_server):
    """It does not wait until their time is over, which is half a minute. (Where others have the cores, one try may take
    as long.)"""

    def seconds_to_end() -> float:
        server = make_server()
        idle = [Api(server.http) for _ in range(5)]
        for api in idle:
            api.get("/healthz")
        with socket.create_connection(("127.0.0.1", server.http_port)) as half:
            half.sendall(b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
            started = time.monotonic()
            assert server.stop(60) == 0
            return time.monotonic() - started

    assert any(seconds_to_end() < 25 for _ in range(4))


def test_requests_under_way_are_answered_on_sigterm(make_server):
    """A large mesh is being read when the signal comes: its client still gets an answer, whole and documented."""
    server = make_server("--drain", "600s")
    body = stl_binary(*torus(500, 300))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        post = pool.submit(Api(server.http, 120), "POST", "/v1/meshes", body, {"Content-Type": "model/stl"})
        probe = Api(server.http)
        received = 'contactd_received_bytes_total{protocol="http"}'
        wait_until(lambda: probe.gauge(received) >= len(body), "the whole upload")
        server.process.send_signal(signal.SIGTERM)
        answer = post.result()
    assert answer.status in (201, 503), answer.body
    if answer.status == 503:
        assert json.loads(answer.body)["code"] == "SHUTTING_DOWN"
    assert server.wait(30) == 0


# ---- bounds ----


def test_a_full_queue_says_when_to_come_again(make_server):
    """One place in the queue and several steps at once: some are told 429, and none is lost in between."""
    server = make_server("--queue", "1")
    api = Api(server.http)
    mesh = api.post("/v1/meshes", obj(*torus(120, 60)))
    scene = api.scene(resolution=256)
    for x in (0, 0.2):
        api.post(f"{scene}/bodies", {"mesh": mesh["id"], "pose": [1, 0, 0, x, 0, 1, 0, 0, 0, 0, 1, 0]})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = []
        while not {200, 429} <= {answer.status for answer in answers} and len(answers) < 24 * 50:
            answers += pool.map(lambda _: Api(server.http)("POST", f"{scene}/step", {}), range(24))
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 429}, statuses
    for answer in answers:
        if answer.status == 429:
            assert answer.json["code"] == "BUSY" and answer.json["retry_after"] >= 1
    assert api.get(scene)["steps"] == statuses.count(200)


def test_uploads_share_a_budget(make_server):
    """Four bodies of the largest size may be held at once; the fifth is told 503 and when to come again."""
    server = make_server("--max-message", "1M")
    head = b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    held = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(4)]
    for connection in held:
        connection.sendall(head + b"v" * 900_000)
    api = Api(server.http)
    deadline = time.monotonic() + 10 * SLOW
    while api.gauge('contactd_received_bytes_total{protocol="http"}') < 3_600_000:
        assert time.monotonic() < deadline
    problem = api.refused("POST", "/v1/meshes", 503, "BUSY", b"v" * 900_000)
    assert problem["retry_after"] == 2
    for connection in held:
        connection.close()
    while (answer := api("POST", "/v1/meshes", b"v" * 900_000)).status == 503:
        assert time.monotonic() < deadline
    assert answer.status == 400  # room again: only no mesh


def test_memory_is_that_of_what_came_not_of_what_was_announced(fresh_server):
    def resident() -> int:
        with open(f"/proc/{fresh_server.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    api = Api(fresh_server.http)
    api.get("/healthz")
    before = resident()
    head = b"POST /v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 268435456\r\n\r\n"
    held = [socket.create_connection(("127.0.0.1", fresh_server.http_port)) for _ in range(50)]
    for connection in held:
        connection.sendall(head + b"v" * 1000)
    deadline = time.monotonic() + 10 * SLOW
    while api.gauge('contactd_received_bytes_total{protocol="http"}') < 50_000:
        assert time.monotonic() < deadline
    assert resident() - before < 16 << 20
    for connection in held:
        connection.close()


def test_limits_are_named(make_server):
    api = Api(make_server("--max-scenes", "2").http)
    api.scene(), api.scene()
    assert "--max-scenes" in api.refused("POST", "/v1/scenes", 503, "LIMIT_EXCEEDED", {})["detail"]
