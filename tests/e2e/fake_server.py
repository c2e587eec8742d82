"""A contactd server in a thread of the test, for what a real one cannot be made to do on command: refuse, stall, answer
nonsense, forget. It answers by the protocol, keeps sequence numbers like the real one, and computes nothing: a step's
"volume" is the sum of the state of its scene, so a lost or repeated update shows.
"""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import zmq
from conftest import free_port

from contactd import _wire
from contactd.errors import ErrorCode


class Refusal(Exception):
    def __init__(self, code: ErrorCode, message: str = "no", field: str = "", object: str = "", retry_after_ms: int = 0):
        super().__init__(message)
        self.body = {"code": int(code), "message": message, "field": field, "object": object,
                     "retry": code in (ErrorCode.BUSY, ErrorCode.SHUTTING_DOWN), "retry_after_ms": retry_after_ms}


class FakeScene:
    def __init__(self):
        self.sequence, self.refused = 0, False
        self.bodies: dict[int, np.ndarray] = {}
        self.steps: list[int] = []
        self.removed: list[int] = []


class FakeServer:
    """`hook(kind, body)` is asked first for every message: it may raise Refusal, return "silence" (no answer), bytes (the
    answer, as it is), or None (go on)."""

    def __init__(self):
        self.hook = lambda kind, body: None
        self.heard: list[str] = []
        self.max_in_flight = 64
        self.lease_ms = 30000
        self.vertices = 8
        self.by_hand: list[dict] | None = None  # the contacts of every step, see _result_by_hand
        self.warnings: list[dict] = []  # of every step
        self.more_settings: dict[str, int | float] = {}  # that it knows, as answers have them
        self.has_meshes = False  # it knows every mesh by its hash
        self._handles = itertools.count(100)
        self._context = zmq.Context()
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Starts, or starts again, with no memory of before."""
        self.epoch = time.monotonic_ns()
        self.sessions: set[int] = set()
        self.scenes: dict[int, FakeScene] = {}
        self._listen()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def hang_up(self) -> None:
        """For hooks: ends all connections, and remembers everything."""
        self._socket.close(0)
        self._listen()

    def _listen(self) -> None:
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        deadline = time.monotonic() + 60
        while True:
            try:
                self._socket.bind(self.address)
                break
            except zmq.ZMQError:  # the last one's is not closed yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def crash(self) -> None:
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        self.crash()
        self._context.destroy(0)

    def _loop(self) -> None:
        while not self._stop.is_set():
            if not self._socket.poll(5):
                continue
            identity, *frames = self._socket.recv_multipart()
            message = _wire.decode(frames)
            self.heard.append(message.kind)
            try:
                answer = self.hook(message.kind, message.body)
                if answer is None:
                    answer = self._answer(message)
            except Refusal as e:
                answer = ("Error", e.body)
            if answer == "silence":
                continue
            if not isinstance(answer, bytes):
                answer = _wire.encode(*answer, request=message.request, epoch=self.epoch)
            self._socket.send_multipart([identity, answer])
        self._socket.close(0)

    def _answer(self, message: _wire.Decoded):
        kind, body = message.kind, message.body
        if kind == "Hello":
            session = next(self._handles)
            self.sessions.add(session)
            return "Welcome", {"version": 1, "epoch": self.epoch, "session": session, "server": "fake",
                               "lease_ms": self.lease_ms, "max_message_bytes": 1 << 28,
                               "max_in_flight": self.max_in_flight}
        if message.session not in self.sessions or message.epoch != self.epoch:
            raise Refusal(ErrorCode.STATE_LOST, field="session")
        if kind == "Ping":
            return "Pong", {"nonce": body["nonce"]}
        if kind == "GetMesh" and not body.get("mesh") and not self.has_meshes:
            raise Refusal(ErrorCode.NOT_FOUND, "no mesh of this hash", field="hash")
        if kind in ("RegisterMesh", "GetMesh"):
            return "MeshInfo", {"mesh": body.get("mesh") or next(self._handles), "hash": "0" * 32, "vertices": self.vertices,
                                "triangles": 12, "volume": 1.0}
        if kind == "OpenScene":
            scene = next(self._handles)
            self.scenes[scene] = FakeScene()
            return "SceneInfo", {"scene": scene, "settings": {"method": 1, "resolution": (64, 64, 64), "pixel_size": 0.0, "stiffness": 1.0,
                                                              "patches": 0} | self.more_settings}
        scene = self.scenes.get(body["scene"])
        if scene is None:
            raise Refusal(ErrorCode.NOT_FOUND, "no such scene", object=f"scene {body['scene']}")
        if kind == "AddBody":
            number = len(scene.bodies) + 1
            scene.bodies[number] = np.zeros(self.vertices * 3) if body["kind"] == 1 else np.array(body["pose"] or [0] * 12)
            return "BodyAdded", {"scene": body["scene"], "body": number}
        if kind == "RemoveBody":
            scene.removed.append(body["body"])
            return "Done", {}
        if kind == "CloseScene":
            del self.scenes[body["scene"]]
            return "Done", {}
        assert kind == "Step", kind
        if body["sequence"] != scene.sequence + 1:
            raise Refusal(ErrorCode.CONFLICT, f"expected {scene.sequence + 1}, got {body['sequence']}", field="sequence")
        scene.sequence += 1
        scene.steps.append(body["sequence"])
        for update in body["updates"] or ():
            state = scene.bodies[update["body"]]
            array = lambda name: _wire.array_of(update[name], message.frames, name)
            if update["kind"] == 4:
                state[:] = update["pose"]
            elif update["kind"] == 1:
                state[:] = array("positions")
            else:
                at = array("indices").reshape(-1, 2 if update["kind"] == 2 else 1)
                at = np.concatenate([np.arange(a, a + n) for a, n in at]) if update["kind"] == 2 else at[:, 0]
                state.reshape(-1, 3)[at] = array("positions").reshape(-1, 3)
        if self.by_hand is not None:
            return self._result_by_hand(body)
        volume = float(sum(b.sum() for b in scene.bodies.values()))
        contact = {"body_a": 1, "body_b": 2, "volume": volume, "volumes": (volume,) * 3}
        answer = {"scene": body["scene"], "sequence": body["sequence"], "contacts": [contact], "method": 1,
                  "backend": "fake", "timings_us": (1.0,) * 7}
        return "StepResult", answer | ({"warnings": self.warnings} if self.warnings else {})

    def _result_by_hand(self, body: dict):
        """Six entries, of the vertices 0 1 1 2 3 0; a contact takes what its first_* and count_* say."""
        arrays = _wire.Arrays()
        entry = np.arange(18.0).reshape(6, 3)
        answer = {"scene": body["scene"], "sequence": body["sequence"], "contacts": self.by_hand, "method": 1,
                  "backend": "hand", "timings_us": (1.0,) * 7,
                  "vertices": arrays.add(np.array([0, 1, 1, 2, 3, 0], "<u4")), "gradient": arrays.add(entry),
                  "weights": arrays.add(entry[:, 0].copy()), "forces": arrays.add(-entry)}
        arrays.place()
        return "StepResult", answer
