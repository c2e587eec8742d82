"""Who may do what: keys, tokens, users, roles and addresses, each from outside, and each bad input with its message."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import warnings

import contactd
import numpy as np
import pytest
import zmq
from zmq.utils import z85
from conftest import CONTACTCTL, PATIENCE, SLOW, Server, wait_until
from contactd import errors
from geometry import UNIT_BOX, moved
from http_api import OPENAPI, box
from late_door import late_door
from raw import Raw

USAGE = 2  # exit code
REFUSED, UNREACHABLE = 3, 4  # of contactctl
SECRET = re.compile(r"secret = (\S+)")


class Keys:
    """Principals made by contactctl in a folder: names to key files and tokens, and the list for the server."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.list = folder, folder / "principals"
        self.list.write_text("# name role credential\n")
        self.make("keys", "server", listed=False)

    def make(self, what: str, name: str, role: str = "simulator", listed: bool = True) -> str:
        """A key's file, or a token."""
        done = subprocess.run([*CONTACTCTL, what, "new", name, "--role", role], cwd=self.folder, capture_output=True,
                              text=True, check=True)
        assert done.stdout.split()[:2] == [name, role]
        if listed:
            self.add(done.stdout)
        path = self.folder / f"{name}.{what[:-1]}"
        assert path.stat().st_mode & 0o777 == 0o600
        return str(path) if what == "keys" else path.read_text().strip()

    def add(self, line: str) -> None:
        self.list.write_text(self.list.read_text() + line)

    def drop(self, name: str) -> None:
        lines = self.list.read_text().splitlines(keepends=True)
        self.list.write_text("".join(line for line in lines if not line.startswith(f"{name} ")))

    @property
    def server(self) -> str:
        return str(self.folder / "server.key")

    @property
    def flags(self) -> tuple[str, ...]:
        return "--principals", str(self.list), "--stream-key", self.server, "--log-level", "debug"

    def secrets(self) -> list[str]:
        """All that must stand in no log."""
        found = [SECRET.search(path.read_text())[1] for path in self.folder.glob("*.key")]
        return found + [path.read_text().strip() for path in self.folder.glob("*.token")]


@pytest.fixture
def keys(tmp_path) -> Keys:
    return Keys(tmp_path)


def connect(server: Server, keys: Keys, key: str, **more) -> contactd.Client:
    return contactd.connect(server.stream, server_key=keys.server, client_key=key, timeout=10 * SLOW, **more)


def refuse_start(server: Server, *parts: str) -> None:
    """The server ends with the exit code of a wrong option, and says what is wrong."""
    server.start(wait=False)
    assert server.wait() == USAGE
    for part in parts:
        assert part in server.logs()
    server.process = None


class Door:
    """HTTP requests with a token."""

    def __init__(self, server: Server, token: str | None = None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10 * SLOW)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, method: str, path: str, body=None, **headers) -> tuple[int, dict]:
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        self.connection.request(method, path, text, self.headers | headers)
        answer = self.connection.getresponse()
        self.answered = answer.headers
        content = answer.read()
        return answer.status, json.loads(content) if "json" in answer.headers.get("Content-Type", "") else content


# ---- the stream's keys ----


def test_a_listed_key_steps(make_server, keys):
    server = make_server(*keys.flags, start=False)
    key = keys.make("keys", "lab")
    server.start()
    with connect(server, keys, key) as client:
        scene = client.open_scene()
        mesh = client.register_mesh(*UNIT_BOX)
        scene.add_body(mesh, pose=np.eye(4))
        body = scene.add_body(mesh, pose=np.eye(4))
        (contact,) = scene.step(poses={body: moved(x=0.25)}).contacts
        assert contact.volume == pytest.approx(0.75)
    assert "of lab (simulator) opened a session" in server.logs()
    done = subprocess.run([*CONTACTCTL, "status", "-o", "json", "--server", server.stream, "--server-key", keys.server,
                           "--client-key", key], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["insecure"] is False


def test_keys_as_text_and_from_the_environment(make_server, keys, monkeypatch):
    key = keys.make("keys", "lab")
    server = make_server(*keys.flags)
    public = re.search(r"public = (\S+)", pathlib.Path(keys.server).read_text())[1]
    secret = SECRET.search(pathlib.Path(key).read_text())[1]
    with contactd.connect(server.stream, server_key=public, client_key=secret) as client:
        client.ping()
    monkeypatch.setenv("CONTACTD_SERVER_KEY", public)
    monkeypatch.setenv("CONTACTD_CLIENT_KEY", key)
    with contactd.connect(server.stream) as client:
        client.ping()
    assert subprocess.run([*CONTACTCTL, "status", "--server", server.stream], capture_output=True).returncode == 0


def test_keys_in_hexadecimal(make_server, keys, tmp_path):
    """At every door: the list of principals, the server's key file, clients in C and in Python, their files and variables."""
    key = keys.make("keys", "lab", listed=False)
    text = pathlib.Path(key).read_text()
    public, secret = (z85.decode(re.search(rf"^{line} = (\S+)", text, re.M)[1].encode()).hex() for line in ("public", "secret"))
    assert f"quotes are in the way: {public}\n" in text
    server_file = pathlib.Path(keys.server)
    server_key, server_secret = (z85.decode(value.encode()).hex() for value in re.findall(r"^\w+ = (\S+)", server_file.read_text(), re.M))
    server_file.write_text(f"public = {server_key}\nsecret = {server_secret.upper()}\n")
    keys.add(f"lab simulator key={public.upper()}\n")
    server = make_server(*keys.flags)
    with contactd.connect(server.stream, server_key=server_key, client_key=secret) as client:
        client.ping()
    in_hex = tmp_path / "hex.key"
    in_hex.write_text(f"public = {public}\nsecret = {secret}\n")
    in_hex.chmod(0o600)
    for given in (key, in_hex, secret):
        with contactd.connect(server.stream, server_key=keys.server, client_key=str(given)) as client:
            client.ping()
        command = [*CONTACTCTL, "status", "--server", server.stream, "--server-key", server_key, "--client-key", str(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == 0, done.stderr
    for bad in (secret[:-1], secret + "0", "0x" + secret[2:], secret[:-1] + "g"):
        with pytest.raises(errors.InvalidArgumentError, match="64 hexadecimal digits") as caught:
            contactd.connect(server.stream, server_key=server_key, client_key=bad)
        assert bad not in str(caught.value)
    logs = server.logs()
    assert secret not in logs and server_secret.upper() not in logs


def test_a_stranger_gets_nowhere(make_server, keys):
    keys.make("keys", "lab")
    stranger = keys.make("keys", "stranger", listed=False)
    server = make_server(*keys.flags)
    with pytest.raises(errors.UnauthenticatedError, match="does not know this client's key"):
        connect(server, keys, stranger)
    with pytest.raises(errors.UnauthenticatedError, match="give server_key and client_key"):
        contactd.connect(server.stream, timeout=10 * SLOW)
    for timeout in (2, PATIENCE):  # on a busy machine the connection itself may take the first of these
        with pytest.raises(errors.UnreachableError) as caught:
            contactd.connect(server.stream, server_key=stranger, client_key=stranger, timeout=timeout)
        if "check server_key" in str(caught.value):
            break
    assert "check server_key" in str(caught.value)
    wait_until(lambda: "its key is not in --principals" in server.logs(), "an audit line")

    def ctl(*flags: str) -> subprocess.CompletedProcess:
        program = CONTACTCTL[:1] if "--timeout" in flags else CONTACTCTL
        return subprocess.run([*program, "status", "--server", server.stream, *flags], capture_output=True, text=True)

    for flags, code, part in (
        ((), REFUSED, "asks for a key"),
        (("--server-key", keys.server, "--client-key", stranger), REFUSED, "does not know this client's key"),
        (("--server-key", keys.server), USAGE, "client_key"),
        (("--client-key", stranger), USAGE, "server_key"),
        (("--server-key", "nonsense", "--client-key", stranger), USAGE, "server_key is neither a key"),
        (("--server-key", keys.server, "--client-key", str(keys.list)), USAGE, "client_key"),
    ):
        done = ctl(*flags)
        assert done.returncode == code and part in done.stderr, done
    for seconds in (2, PATIENCE):
        done = ctl("--server-key", stranger, "--client-key", stranger, "--timeout", str(seconds))
        assert done.returncode == UNREACHABLE, done
        if "check server_key" in done.stderr:
            break
    assert "check server_key" in done.stderr, done
    raw = Raw(server.stream, hello=False)  # a client of another kind, without any key
    raw.send("Hello", {"version": 1, "min_version": 1, "client": "raw"})
    assert raw.socket.poll(500) == 0
    raw.close()


def test_a_server_without_keys_says_so_to_a_client_with_keys(fresh_server, keys):
    with pytest.raises(errors.UnauthenticatedError, match="it does not encrypt"):
        connect(fresh_server, keys, keys.make("keys", "lab"))


@pytest.mark.parametrize("has_keys", (False, True), ids=("client without", "client with"))
def test_why_a_busy_server_refuses_is_found(make_server, keys, has_keys):
    """It reads the client's greeting at once, and ends the connection before it has sent its own."""
    key = keys.make("keys", "lab")
    server = make_server(*(() if has_keys else keys.flags))
    why = "it does not encrypt" if has_keys else "it asks for a key"
    with late_door(server.stream_port, 0, hold=11) as address:  # signature and major version: then the client sends the rest
        with pytest.raises(errors.UnauthenticatedError, match=why):
            given = {"server_key": keys.server, "client_key": key} if has_keys else {}
            contactd.connect(address, timeout=PATIENCE, **given)
        given = ("--server-key", keys.server, "--client-key", key) if has_keys else ()
        done = subprocess.run([*CONTACTCTL, "status", "--server", address, *given], capture_output=True, text=True)
        assert done.returncode == REFUSED and why in done.stderr, done


def test_bad_client_keys(keys, tmp_path):
    good = keys.make("keys", "lab")
    with pytest.raises(errors.InvalidArgumentError, match="without client_key"):
        contactd.connect(server_key=good)
    with pytest.raises(errors.InvalidArgumentError, match="neither a key") as caught:
        contactd.connect(server_key=good, client_key="SECRET-BUT-WRONG")
    assert "SECRET" not in str(caught.value)
    empty = tmp_path / "empty.key"
    empty.write_text("public = 12\n")
    empty.chmod(0o600)
    with pytest.raises(errors.InvalidArgumentError, match="has no line \"secret = KEY\""):
        contactd.connect(server_key=good, client_key=empty)
    os.chmod(good, 0o644)
    with pytest.raises(errors.InvalidArgumentError, match="chmod 600"):
        contactd.connect(server_key=good, client_key=good)


def test_a_key_is_taken_back_and_given_again(make_server, keys):
    key = keys.make("keys", "lab")
    other = keys.make("keys", "other")
    server = make_server(*keys.flags)
    with connect(server, keys, key) as client, connect(server, keys, other) as bystander:
        line = next(x for x in keys.list.read_text().splitlines(keepends=True) if x.startswith("lab "))
        keys.drop("lab")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "its credential is no longer in --principals" in server.logs(), "the cut connection")
        with pytest.raises(errors.UnauthenticatedError):
            client.ping()
        keys.add(line)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.logs().count("the list of principals was read again") == 2, "the new list")

        def answers() -> bool:
            try:
                return client.ping() >= 0
            except errors.UnauthenticatedError:
                return False

        wait_until(answers, "an answer to the key that is listed again")
        bystander.ping()
        assert bystander.reconnects == 0
        keys.list.write_text("lab simulator nonsense\n")  # is not taken, and no connection is cut
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the list stays as it was" in server.logs(), "a refused list")
        client.ping()
        bystander.ping()
        assert bystander.reconnects == 0


class Relay:
    """Stands before a port, in a `with` block, and reads along."""

    def __init__(self, port: int) -> None:
        self.door, self.sockets = socket.create_server(("127.0.0.1", 0)), []
        self.passed: list[list[bytes]] = []  # of each direction of each connection
        self.to, self.port = port, self.door.getsockname()[1]

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._quiet, args=(self._accept,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self.door, *self.sockets):
            self._quiet(end.shutdown, socket.SHUT_RDWR)  # ends the threads' waits
            end.close()

    def _accept(self) -> None:
        while True:  # a client may connect again
            near, _ = self.door.accept()
            far = socket.create_connection(("127.0.0.1", self.to))
            self.sockets.extend((near, far))
            for ends in ((near, far), (far, near)):
                self.passed.append([])
                threading.Thread(target=self._quiet, args=(self._pump, *ends, self.passed[-1]), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, passed: list[bytes]) -> None:
        try:
            while data := source.recv(1 << 16):
                passed.append(data)
                sink.sendall(data)
        finally:
            self._quiet(sink.shutdown, socket.SHUT_WR)

    @staticmethod
    def _quiet(function, *arguments) -> None:
        try:
            function(*arguments)
        except OSError:
            pass

    @property
    def seen(self) -> bytes:
        return b"\n".join(b"".join(pieces) for pieces in self.passed)


def test_what_is_sent_with_a_key_is_encrypted(make_server, keys):
    """Positions of a value that is easy to find pass a relay between client and server."""
    key = keys.make("keys", "lab")
    keyed, plain = make_server(*keys.flags), make_server()
    corner = np.float32(0.1234567)  # of a box, so that some vertices have it three times
    needle = corner.tobytes() * 3

    def seen(server: Server, **more) -> bytes:
        with Relay(server.stream_port) as relay:
            with contactd.connect(f"tcp://127.0.0.1:{relay.port}", timeout=10 * SLOW, **more) as client:
                vertices, triangles = UNIT_BOX
                low = vertices == vertices.min()
                client.register_mesh(np.where(low, corner, corner + 1).astype(np.float32), triangles)
            return relay.seen

    assert needle in seen(plain)
    bytes_keyed = seen(keyed, server_key=keys.server, client_key=key)
    assert len(bytes_keyed) > 500 and needle not in bytes_keyed and b"CTD" not in bytes_keyed


def test_what_is_sent_over_https_is_encrypted(make_server, keys, tmp_path):
    """Positions and the token pass a relay between client and server."""
    cert, key = certificate(tmp_path, "one")
    token = keys.make("tokens", "alice", "admin")
    listed = ("--principals", str(keys.list))
    plain, secret = make_server(*listed), start_https(make_server, "--http-cert", cert, "--http-key", key, *listed)
    vertices, triangles = box()
    mesh = {"vertices": [[0.123456789 + x for x in v] for v in vertices], "triangles": triangles}

    def seen(server: Server, connection) -> bytes:
        with Relay(server.http_port) as relay:
            door = Door(server, token)
            door.connection = connection(relay.port)
            assert door("POST", "/v1/meshes", mesh)[0] == 201
            return relay.seen

    needles = [str(mesh["vertices"][0][0]).encode(), token.encode(), b"vertices"]
    bytes_plain = seen(plain, lambda port: http.client.HTTPConnection("127.0.0.1", port, timeout=10 * SLOW))
    assert needles[0] in bytes_plain and needles[1] in bytes_plain
    context = ssl.create_default_context(cafile=cert)
    bytes_secret = seen(secret, lambda port: http.client.HTTPSConnection("127.0.0.1", port, timeout=10 * SLOW, context=context))
    assert len(bytes_secret) > 500 and not any(needle in bytes_secret for needle in needles)


# ---- ipc: file mode and user ----


def test_ipc_is_for_the_own_user(make_server, tmp_path, keys):
    keys.make("keys", "lab")
    path = tmp_path / "socket"
    server = make_server(*keys.flags, "--stream", f"ipc://{path}")
    assert path.stat().st_mode & 0o777 == 0o600
    with contactd.connect(f"ipc://{path}", timeout=10 * SLOW) as client:  # without a key, unlike over tcp
        client.register_mesh(*UNIT_BOX)
        assert client.status()["meshes"] == 1


def test_ipc_knows_listed_users(make_server, tmp_path, keys):
    path = tmp_path / "socket"
    keys.add(f"me simulator uid={os.getuid()}\n")
    server = make_server("--principals", str(keys.list), "--stream", f"ipc://{path}", "--log-level", "debug")
    assert path.stat().st_mode & 0o777 == 0o666
    with contactd.connect(f"ipc://{path}", timeout=10 * SLOW) as client:
        client.open_scene()
        wait_until(lambda: "of me (simulator) opened a session" in server.logs(), "the user's name")
    keys.drop("me")
    keys.add(f"another simulator uid={os.getuid() + 1}\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "was read again" in server.logs(), "the new list")
    with pytest.raises(errors.UnauthenticatedError):
        contactd.connect(f"ipc://{path}", timeout=10 * SLOW)
    wait_until(lambda: "its user is not in --principals" in server.logs(), "an audit line")


# ---- roles ----


def test_roles_over_the_stream(make_server, keys):
    names = {"a": "simulator", "b": "simulator", "watch": "operator", "boss": "admin"}
    files = {name: keys.make("keys", name, role) for name, role in names.items()}
    server = make_server(*keys.flags)
    clients = {name: connect(server, keys, file) for name, file in files.items()}
    a, b, watch, boss = clients.values()

    mesh = a.register_mesh(*UNIT_BOX, name="of a")
    scene = a.open_scene(resolution=8)
    scene.add_body(mesh, pose=np.eye(4))
    number = scene.id

    def ask(client, kind: str, body: dict):
        from contactd._state import Request

        return client._link.call(Request(kind, lambda: (body, None), lambda answer: answer.body, timeout=10 * SLOW))

    def forbidden(client, kind: str, body: dict, match: str = "FORBIDDEN") -> None:
        with pytest.raises(errors.ForbiddenError, match=match):
            ask(client, kind, body)

    listed = ask(a, "ListMeshes", {})["meshes"]
    mesh_id = listed[0]["mesh"]
    # Another simulator: neither sees nor touches it.
    assert not ask(b, "ListMeshes", {})["meshes"] and not ask(b, "ListScenes", {})["scenes"]
    own = b.open_scene()
    never, hash_ = number + 1000, listed[0]["hash"]

    def told(kind: str, body: dict) -> tuple:
        with pytest.raises(errors.NotFoundError) as caught:
            ask(b, kind, body)
        text = str(caught.value)
        for name in (number, never, mesh_id, hash_, hash_[:8], "f" * 32, "f" * 8):
            text = re.sub(rf"\b{name}\b", "X", text)
        return text

    # What is another's is told as what never was.
    for kind, body in (("GetScene", {}), ("Configure", {"settings": {"resolution": (16,)}}), ("GetSnapshot", {}),
                       ("CloseScene", {}), ("RemoveBody", {"body": 1}), ("Step", {"sequence": 1, "want": 7}),
                       ("AddBody", {"mesh": mesh_id, "kind": 2})):
        assert told(kind, {**body, "scene": number}) == told(kind, {**body, "scene": never}), kind
    for kind, body in (("GetMesh", {}), ("RemoveMesh", {}), ("AddBody", {"scene": own.id, "kind": 2}),
                       ("AddBody", {"scene": never, "kind": 2})):
        assert told(kind, {**body, "mesh": mesh_id}) == told(kind, {**body, "mesh": mesh_id + 1000}), kind
    for kind in ("GetMesh", "RemoveMesh"):
        assert told(kind, {"hash": hash_}) == told(kind, {"hash": "f" * 32}), kind
        assert told(kind, {"hash": hash_[:8]}) == told(kind, {"hash": "f" * 8}), kind
    # The same content registered by both is shared, and stays until both have removed it.
    twin = b.register_mesh(*UNIT_BOX)
    assert ask(b, "ListMeshes", {})["meshes"][0]["mesh"] == mesh_id
    own.add_body(twin, pose=np.eye(4))
    own.close()
    twin.remove()
    assert not ask(b, "ListMeshes", {})["meshes"] and ask(a, "ListMeshes", {})["meshes"]
    # An operator looks and configures, and changes nothing else.
    assert ask(watch, "ListScenes", {})["scenes"][0]["scene"] == number
    assert ask(watch, "GetMesh", {"mesh": mesh_id})["mesh"] == mesh_id
    assert ask(watch, "Configure", {"scene": number, "settings": {"resolution": (32,)}})["scene"] == number
    wait_until(lambda: f"watch (operator) configured scene {number}" in server.logs(), "an audit line")
    for kind, body in (("OpenScene", {}), ("CloseScene", {"scene": number}), ("RemoveMesh", {"mesh": mesh_id}),
                       ("AddBody", {"scene": number, "mesh": mesh_id, "kind": 2}),
                       ("RemoveBody", {"scene": number, "body": 1}),
                       ("ReplaceMesh", {"scene": number, "body": 1, "mesh": mesh_id}),
                       ("Step", {"scene": number, "sequence": 1, "want": 7})):
        forbidden(watch, kind, body, "watch has the role operator")
    with pytest.raises(errors.ForbiddenError, match="watch has the role operator"):
        watch.register_mesh(*UNIT_BOX)
    # An admin removes what is others', once nothing uses it.
    scene.close()
    ask(boss, "RemoveMesh", {"mesh": mesh_id})
    wait_until(lambda: f"boss (admin) removed mesh {mesh_id}" in server.logs(), "an audit line")
    for client in clients.values():
        client.close()


def test_a_session_is_its_principals_own(make_server, keys):
    """Whoever learns another's session number cannot use it."""
    files = [keys.make("keys", name) for name in ("a", "b")]
    server = make_server(*keys.flags)

    def raw(file: str) -> Raw:
        client = Raw(server.stream, hello=False)  # its first connection is refused
        text = pathlib.Path(file).read_text()
        client.socket.disconnect(server.stream)
        client.socket.curve_serverkey = re.search(r"public = (\S+)", pathlib.Path(keys.server).read_text())[1].encode()
        secret = SECRET.search(text)[1].encode()
        client.socket.curve_secretkey, client.socket.curve_publickey = secret, zmq.curve_public(secret)
        client.socket.connect(server.stream)
        welcome = client.ask("Hello", {"version": 1, "min_version": 1, "client": "raw"})
        client.session, client.epoch = welcome.body["session"], welcome.body["epoch"]
        return client

    a, b = raw(files[0]), raw(files[1])
    assert a.ok("OpenScene", {})["scene"]
    b.session = a.session
    assert b.refused("ListScenes", {})[0] == "STATE_LOST"
    a.close()
    b.close()


def test_roles_over_http(make_server, keys):
    tokens = {name: keys.make("tokens", name, role) for name, role in
              (("a", "simulator"), ("b", "simulator"), ("watch", "operator"), ("boss", "admin"))}
    server = make_server("--principals", str(keys.list))
    a, b, watch, boss = (Door(server, token) for token in tokens.values())
    vertices, triangles = box()
    mesh = {"vertices": vertices, "triangles": triangles}
    status, made = a("POST", "/v1/meshes", mesh)
    assert status == 201
    status, scene = a("POST", "/v1/scenes", {"resolution": 8})
    assert status == 201
    path, mesh_path = f"/v1/scenes/{scene['id']}", f"/v1/meshes/{made['hash']}"
    assert a("POST", f"{path}/bodies", {"mesh": made["id"]})[0] == 201
    assert a("POST", f"{path}/step", {})[0] == 200
    for method, where, body in (("GET", path, None), ("PATCH", path, {"resolution": 9}), ("DELETE", path, None),
                                ("GET", f"{path}/bodies", None), ("GET", f"{path}/stats", None),
                                ("POST", f"{path}/step", {}), ("GET", f"{path}/snapshot.png", None),
                                ("POST", f"{path}/bodies", {"mesh": made["id"]}), ("DELETE", f"{path}/bodies/1", None),
                                ("GET", mesh_path, None), ("DELETE", mesh_path, None)):
        status, problem = b(method, where, body)
        assert status == 404 and problem["code"] == "NOT_FOUND", (method, where, problem)
        other = where.replace(path, f"/v1/scenes/{scene['id'] + 1000}").replace(made["hash"], "f" * 32)
        assert (status, problem["detail"]) == (lambda s, p: (s, p["detail"]))(*b(method, other, body)), (method, where)
    assert b("GET", "/v1/meshes")[1] == {"meshes": []} and b("GET", "/v1/scenes")[1] == {"scenes": []}
    for method, where, body in (("POST", "/v1/scenes", {}), ("DELETE", path, None), ("POST", f"{path}/step", {}),
                                ("POST", f"{path}/bodies", {"mesh": made["id"]}), ("DELETE", f"{path}/bodies/1", None),
                                ("POST", "/v1/meshes", mesh), ("DELETE", mesh_path, None)):
        status, problem = watch(method, where, body)
        assert status == 403 and "watch has the role operator" in problem["detail"], (method, where, problem)
    assert watch("GET", path)[0] == 200 and watch("PATCH", path, {"resolution": 12})[1]["resolution"] == [12, 12, 12]
    assert watch("GET", f"{path}/bodies")[0] == 200 and watch("GET", mesh_path)[0] == 200
    assert boss("DELETE", path)[0] == 204 and boss("DELETE", mesh_path)[0] == 204
    logs = server.logs()
    for line in (f"watch (operator) over HTTP: PATCH {path}: done", f"watch (operator) over HTTP: DELETE {path}: refused",
                 f"boss (admin) over HTTP: DELETE {path}: done"):
        assert line in logs
    for secret in keys.secrets():
        assert secret not in logs


# ---- tokens ----


def test_tokens(make_server, keys):
    token = keys.make("tokens", "alice", "admin")
    server = make_server("--principals", str(keys.list))
    alice, anonymous, wrong = Door(server, token), Door(server), Door(server, token[:-1] + "x")
    assert alice("GET", "/v1/status")[0] == 200
    assert alice("GET", "/v1/status", Authorization=f"bearer {token}")[0] == 200
    for door, part in ((anonymous, "no token"), (wrong, "not one of those")):
        status, problem = door("GET", "/v1/status")
        assert status == 401 and problem["code"] == "UNAUTHENTICATED" and part in problem["detail"]
        assert door.answered["WWW-Authenticate"].startswith("Bearer")
    for scheme in (f"Basic {token}", token, f"Bearer {token} {token}", "Bearer"):
        assert anonymous("GET", "/v1/status", Authorization=scheme)[0] == 401
    assert anonymous("GET", "/metrics")[0] == 401
    for path, item in OPENAPI["paths"].items():
        for method in {"get", "post", "patch", "delete"} & set(item):
            body = {} if method in ("post", "patch") else None
            expected = 200 if item[method].get("security") == [] else 401
            assert anonymous(method.upper(), re.sub(r"{\w+}", "1", path.replace("{module}", "view.js")), body)[0] == expected, (method, path)
    bob = keys.make("tokens", "bob", "operator")
    assert Door(server, bob)("GET", "/v1/status")[0] == 401
    keys.drop("alice")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: Door(server, bob)("GET", "/v1/status")[0] == 200, "bob let in")
    assert alice("GET", "/v1/status")[0] == 401
    keys.drop("bob")  # no token is left: the door stays shut
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: Door(server, bob)("GET", "/v1/status")[0] == 401, "bob refused")
    assert anonymous("GET", "/v1/status")[0] == 401


def test_open_metrics(make_server, keys):
    keys.make("tokens", "alice")
    server = make_server("--principals", str(keys.list), "--http-metrics", "open")
    assert Door(server)("GET", "/metrics")[0] == 200
    assert Door(server)("GET", "/v1/status")[0] == 401


def test_failed_attempts_are_limited(make_server, keys):
    token, late = keys.make("tokens", "alice"), keys.make("tokens", "late")
    server = make_server("--principals", str(keys.list), "--http-metrics", "open")
    assert Door(server, token)("GET", "/v1/status")[0] == 200
    answers = [Door(server, f"guess {i}".replace(" ", "-"))("GET", "/v1/status")[0] for i in range(60)]
    assert set(answers) == {401, 429} and answers[:10] == [401] * 10
    assert 401 <= Door(server, "guess")("GET", "/v1/status")[0] <= 429
    assert Door(server, token)("GET", "/v1/status")[0] == 200  # was here before the guesses

    def limited() -> bool:
        door = Door(server, "one-more-guess")
        status, problem = door("GET", "/v1/status")
        wait = int(door.answered["Retry-After"] or 0)
        assert status == 401 or problem["retry_after"] == wait and f"wait {wait} s" in problem["detail"]
        return status == 429 and wait == 3 and problem["code"] == "BUSY"

    wait_until(limited, "a refusal that says when to come again")
    assert server.logs().count("its token is not in --principals") < 60
    text = Door(server)("GET", "/metrics")[1].decode()
    (count,) = re.findall(r'^contactd_authentication_failures_total\{protocol="http"\} (\d+)$', text, re.M)
    assert int(count) >= 61
    wait_until(lambda: Door(server, late)("GET", "/v1/status")[0] == 200, "the address forgiven", 60 + PATIENCE)
    Door(server, "one-more")("GET", "/v1/status")
    wait_until(lambda: re.search(r"not in --principals; \d+ more attempts, of any address, were refused unseen", server.logs()),
               "a line about those that were not looked at")


def test_an_address_with_many_failures(make_server, keys):
    """Whoever is listed gets in beside a neighbour's strange keys. Whoever is not hears to wait, and does so by itself."""
    for name in ("here", "new"):
        keys.make("keys", name)
    stranger = keys.make("keys", "stranger", listed=False)
    server = make_server(*keys.flags)

    def fill() -> None:
        wait_until(lambda: knock(server, keys) == 500, "an address that has to wait")

    fill()
    for name in ("here", "new"):
        with connect(server, keys, str(keys.folder / f"{name}.key")) as client:
            client.open_scene()

    def told(timeout: float) -> str:
        fill()
        with pytest.raises(contactd.ContactdError) as caught:
            contactd.connect(server.stream, server_key=keys.server, client_key=stranger, timeout=timeout)
        return str(caught.value)

    def told_in_c(timeout: float) -> str:
        fill()
        done = subprocess.run([CONTACTCTL[0], "--server", server.stream, "--server-key", keys.server, "--client-key", stranger,
                               "--timeout", str(timeout), "status"], capture_output=True, text=True)
        assert done.returncode in (REFUSED, UNREACHABLE)
        return done.stderr

    for ask in (told, told_in_c):
        wait_until(lambda ask=ask: "too many attempts from this address failed: it asks to wait 3 s" in ask(2), "a client told to wait")
        # With more time it waits, and is looked at then.
        wait_until(lambda ask=ask: "does not know this client's key" in ask(8 * SLOW), "a client that has waited", 60 + PATIENCE)


def knock(server: Server, keys: Keys) -> int:
    """The status code that ends the handshake of a strange key."""
    import zmq.utils.monitor

    with zmq.Context() as context, context.socket(zmq.DEALER) as door:
        door.linger = 0
        door.curve_serverkey = re.search(r"public = (\S+)", pathlib.Path(keys.server).read_text())[1].encode()
        door.curve_publickey, door.curve_secretkey = zmq.curve_keypair()
        monitor = door.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        door.connect(server.stream)
        assert monitor.poll(1000 * PATIENCE)
        value = zmq.utils.monitor.recv_monitor_message(monitor)["value"]
        door.disable_monitor()
    return value


def test_names_and_sites(make_server):
    server = make_server("--http-host", "sim.example", "--http-host", "gateway")
    door = Door(server)
    for host, status in (("sim.example", 200), ("sim.example:8080", 200), ("Gateway", 200), ("localhost", 200),
                         ("evil.example", 403), ("10.0.0.1", 403)):
        assert door("GET", "/v1/status", Host=host)[0] == status, host
    scene = door("POST", "/v1/scenes", {})[1]["id"]
    for site, expected in (("cross-site", 403), ("same-site", 403)):
        status, problem = door("GET", f"/v1/scenes/{scene}/snapshot.png", **{"Sec-Fetch-Site": site})
        assert status == expected and problem["field"] == "Sec-Fetch-Site"
        assert door("GET", f"/v1/scenes/{scene}", **{"Sec-Fetch-Site": site})[0] == 200
    assert door("GET", f"/v1/scenes/{scene}/snapshot.png", **{"Sec-Fetch-Site": "same-origin"})[0] != 403


# ---- TLS ----


def certificate(folder: pathlib.Path, name: str) -> tuple[str, str]:
    subprocess.run([*CONTACTCTL, "keys", "cert", name, "--days", "30"], check=True, capture_output=True, cwd=folder)
    return str(folder / f"{name}.pem"), str(folder / f"{name}-key.pem")


def https(server: Server, cert: str, token: str | None = None, **limits) -> Door:
    context = ssl.create_default_context(cafile=cert)
    for name, value in limits.items():
        setattr(context, name, value)
    door = Door(server, token)
    door.connection = http.client.HTTPSConnection("127.0.0.1", server.http_port, timeout=10 * SLOW, context=context)
    return door


def start_https(make_server, *flags: str) -> Server:
    server = make_server(*flags, start=False)
    server.start(wait=False)
    wait_until(lambda: "HTTP on https://" in server.logs() or not server.alive(), "the server up")
    assert server.alive(), server.logs()
    return server


def test_https(make_server, keys, tmp_path):
    cert, key = certificate(tmp_path, "one")
    token = keys.make("tokens", "alice", "admin")
    server = start_https(make_server, "--http-cert", cert, "--http-key", key, "--principals", str(keys.list))
    door = https(server, cert, token)
    assert door("GET", "/v1/status")[0] == 200
    assert door.connection.sock.version() in ("TLSv1.2", "TLSv1.3")
    vertices, triangles = box()
    assert door("POST", "/v1/meshes", {"vertices": vertices, "triangles": triangles})[0] == 201
    for path in ("/v1/status", "/", "/nothing"):
        door("GET", path)
        assert door.answered["Strict-Transport-Security"] == "max-age=31536000"
    before = https(server, cert, token, maximum_version=ssl.TLSVersion.TLSv1_2)
    assert before("GET", "/v1/status")[0] == 200
    assert before.connection.sock.cipher()[0].startswith("ECDHE-ECDSA-") and "GCM" in before.connection.sock.cipher()[0]
    # Of TLS 1.2, only ciphers with forward secrecy and authenticated encryption.
    for cipher in ("kRSA", "SHA1", "SHA256", "SHA384", "CBC", "DHE+AESGCM:!ECDHE"):
        context = ssl.create_default_context(cafile=cert)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.set_ciphers(cipher + ":!AESGCM:!CHACHA20:!AESCCM:@SECLEVEL=0" if "GCM" not in cipher else cipher)
        except ssl.SSLError:
            continue  # this OpenSSL has none of them
        weak = Door(server, token)
        weak.connection = http.client.HTTPSConnection("127.0.0.1", server.http_port, timeout=10 * SLOW, context=context)
        with pytest.raises((ssl.SSLError, OSError)):
            weak("GET", "/v1/status")
    old = https(server, cert, token)
    old.connection = http.client.HTTPSConnection("127.0.0.1", server.http_port, timeout=10 * SLOW,
                                                 context=(context := ssl.create_default_context(cafile=cert)))
    with warnings.catch_warnings(action="ignore"):  # that these are old
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        old("GET", "/v1/status")
    with pytest.raises((http.client.HTTPException, OSError)):  # not in the clear
        Door(server, token)("GET", "/v1/status")

    # A new certificate: open connections go on, new ones get it. A broken one is not taken.
    other, other_key = certificate(tmp_path, "two")
    shutil.copy(other, cert + ".new")
    os.replace(cert + ".new", cert)
    os.replace(other_key, key)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the certificate and its key were read again" in server.logs(), "the new certificate")
    assert door("GET", "/v1/status")[0] == 200
    assert https(server, other, token)("GET", "/v1/status")[0] == 200
    pathlib.Path(key).write_text("nonsense")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old certificate stays" in server.logs(), "a refused key")
    assert https(server, other, token)("GET", "/v1/status")[0] == 200
    assert door("GET", "/v1/status")[0] == 200
    assert token not in server.logs() and "PRIVATE" not in server.logs()


# ---- what does not start ----


def test_bad_options_about_who_may_come(make_server, keys, tmp_path):
    cert, key = certificate(tmp_path, "one")
    other = certificate(tmp_path, "two")
    listed = ("--principals", str(keys.list))
    broken = tmp_path / "broken"
    broken.write_text("a simulator\n")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    open_key = tmp_path / "open.key"
    shutil.copy(keys.server, open_key)
    open_key.chmod(0o644)
    broken.chmod(0o640)
    for flags, parts in (
        (("--http-cert", cert), ("--http-cert is given without --http-key",)),
        (("--http-key", key), ("--http-key is given without --http-cert",)),
        (("--http-cert", cert, "--http-key", other[1]), ("not that of the certificate",)),
        (("--http-cert", str(empty), "--http-key", key), ("empty.pem", "no certificate chain")),
        (("--http-cert", cert, "--http-key", str(empty)), ("empty.pem", "no private key")),
        (("--http-cert", cert, "--http-key", "/nowhere"), ("/nowhere", "No such file")),
        (("--principals", "/nowhere"), ("/nowhere", "No such file")),
        (("--principals", str(broken)), ("broken:1", "no credential")),
        (("--stream-key", keys.server), ("no client could connect",)),
        (("--stream-key", keys.server, *listed), ("no client could connect",)),
    ):
        refuse_start(make_server(*flags, start=False), *parts)
    keys.make("keys", "lab")
    for path, part in (("/nowhere", "No such file"), (str(broken), "has no line"), (str(open_key), "chmod 600")):
        refuse_start(make_server("--stream-key", path, *listed, start=False), path, part)


def test_other_machines_are_let_in_only_with_both_or_if_told(make_server, keys, tmp_path):
    cert, key = certificate(tmp_path, "one")
    token = keys.make("tokens", "alice", "admin")
    keys.make("keys", "lab")
    listed, tls = ("--principals", str(keys.list)), ("--http-cert", cert, "--http-key", key)

    def exposed(server: Server, stream: bool, http: bool) -> Server:
        """The last flag of a kind wins but for --stream, of which there are then two."""
        if stream:
            server.flags += ("--stream", "tcp://0.0.0.0:*")
        if http:
            server.flags += ("--http", f"0.0.0.0:{server.http_port}")
        return server

    remedy = ("other machines can reach this address", "--insecure")
    refuse_start(exposed(make_server(start=False), True, False), "--stream-key", *remedy)
    refuse_start(exposed(make_server(*listed, start=False), True, False), "--stream-key", *remedy)
    for flags in ((), listed, tls):
        refuse_start(exposed(make_server(*flags, start=False), False, True), "--http-cert", *remedy)
    both = exposed(make_server(*keys.flags, *tls, start=False), True, True)
    both.start(wait=False)
    wait_until(lambda: "HTTP on https://" in both.logs() or not both.alive(), "the server up")
    assert "--insecure" not in both.logs()
    status = https(both, cert, token)("GET", "/v1/status")
    assert status[0] == 200 and status[1]["insecure"] is False
    both.stop()
    told = exposed(make_server("--insecure", start=False), True, True).start()
    assert told.logs().count("--insecure: ") == 2
    assert Door(told)("GET", "/v1/status")[1]["insecure"] is True
    shown = subprocess.run([*CONTACTCTL, "status", "--server", told.stream], capture_output=True, text=True).stdout
    assert "INSECURE" in shown


def test_secrets_are_not_printed(make_server, binaries, keys):
    token = keys.make("tokens", "alice", "admin")
    keys.make("keys", "lab")
    flags = [*keys.flags]
    printed = subprocess.run([binaries / "contactd", *flags, "--print-config"], capture_output=True, text=True).stdout
    server = make_server(*flags)
    door = Door(server, token)
    status = json.dumps(door("GET", "/v1/status")[1]) + door("GET", "/metrics")[1].decode()
    with contactd.connect(server.stream, server_key=keys.server, client_key=str(keys.folder / "lab.key")) as client:
        status += str(client.status())
    digest = hashlib.sha256(token.encode()).hexdigest()
    for secret in (*keys.secrets(), digest):
        assert secret not in printed + server.logs() + status
    process = pathlib.Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
    assert not any(secret in process for secret in keys.secrets())


@pytest.mark.parametrize("how", ["option", "variable", "file"])
def test_a_key_given_as_its_file_is_not_printed(binaries, tmp_path, how):
    """Neither by a server that refuses it, nor by --print-config."""
    secret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
    (tmp_path / "config").write_text(f"stream-key = {secret}\n")
    arguments = {"option": ["--stream-key", secret], "variable": [], "file": ["--config", str(tmp_path / "config")]}[how]
    env = dict(os.environ) | ({"CONTACTD_STREAM_KEY": secret} if how == "variable" else {})
    for more in ([], ["--print-config"]):
        done = subprocess.run([binaries / "contactd", *arguments, *more], env=env, capture_output=True, text=True)
        assert done.returncode == 2 and "give the name of the key's file" in done.stderr
        assert secret not in done.stdout + done.stderr


def test_new_keys_overwrite_nothing(keys):
    before = pathlib.Path(keys.server).read_text()
    for command, name, part in ((("keys", "new"), "server", "File exists"), (("keys", "new"), "../x", "no name"),
                                (("tokens", "new"), "a b", "no name")):
        done = subprocess.run([*CONTACTCTL, *command, name], cwd=keys.folder, capture_output=True, text=True)
        assert done.returncode == USAGE and part in done.stderr and not done.stdout
    done = subprocess.run([*CONTACTCTL, "keys", "new", "x", "--role", "god"], cwd=keys.folder, capture_output=True, text=True)
    assert done.returncode == USAGE and "--role" in done.stderr
    assert pathlib.Path(keys.server).read_text() == before
    assert not (keys.folder / "x.key").exists()
