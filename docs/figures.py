"""Draws the figures of the documentation with contactd itself: `make figures`, or docs/figures.py NAME.png... for some. page.png wants
Chromium and tests/requirements-page.txt."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import contactd
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "client_py" / "examples"))
from shapes import blob, bolt, box, nut, torus  # noqa: E402

IMAGES = ROOT / "docs" / "images"


def at(x: float, y: float, z: float) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    return pose


def nut_on_bolt(client: contactd.Client) -> bytes:
    scene = client.open_scene(method="exact")
    scene.add_body(client.register_mesh(*bolt(96, (-0.75, 0.75))), at(0, 0, 0))
    scene.add_body(client.register_mesh(*nut(96, 0.004)), at(0, 0, -0.012))
    scene.step()
    return scene.snapshot(width=1000, height=520, azimuth=35, elevation=18, show=("bodies", "contacts", "gradients"))


def balls(client: contactd.Client, method: str, show: tuple[str, ...], **settings: float) -> bytes:
    """Two balls with bumps that overlap, as a method sees them."""
    scene = client.open_scene(method=method, **settings)
    mesh = client.register_mesh(*blob(0.5, 4))
    scene.add_body(mesh, at(-0.3, 0, 0))
    scene.add_body(mesh, at(0.32, 0.05, 0.1))
    scene.step(want="frame")
    return scene.snapshot(width=800, height=450, azimuth=-70, elevation=15, show=show, zoom=0.72 if "nodes" in show else 1)


def exact(client: contactd.Client) -> bytes:
    return balls(client, "exact", ("bodies", "contacts", "gradients"))


def ldi(client: contactd.Client) -> bytes:
    return balls(client, "ldi", ("bodies", "samples"), resolution=40)


def ebpi(client: contactd.Client) -> bytes:
    return balls(client, "ebpi", ("bodies", "rays_y"), tolerance_rel=0.01, tolerance=1e-9)


def voxtree(client: contactd.Client) -> bytes:
    return balls(client, "voxtree", ("bodies", "nodes", "normals"), level=4)


def patches(client: contactd.Client) -> bytes:
    """One ring through another: two pieces, each a contact with a colour of its own."""
    scene = client.open_scene(method="exact", patches=True)
    ring = client.register_mesh(*torus(0.35, 0.15))
    scene.add_body(ring, at(0, 0, 0))
    turned = np.eye(4)
    turned[:3, :3] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    turned[:3, 3] = 0.2, 0, 0
    scene.add_body(ring, turned)
    scene.step(want="frame")
    return scene.snapshot(width=800, height=450, azimuth=-70, elevation=35, show=("bodies", "contacts"))


def surface(client: contactd.Client) -> bytes:
    """Bodies on a slab, and what presses them apart."""
    scene = client.open_scene(law="pressure")
    scene.add_body(client.register_mesh(*box((-1.0, -0.6, -0.2), (1.0, 0.6, 0.0))), at(0, 0, 0), modulus=1e7)
    turn = np.array([[0.9, -0.436, 0], [0.436, 0.9, 0], [0, 0, 1]])
    tilted = np.array([[1, 0, 0.03], [0, 1, 0.015], [-0.03, -0.015, 1]])
    crate = at(-0.55, 0, 0.187)
    crate[:3, :3] = np.linalg.qr(turn @ tilted)[0] * [-1, -1, 1]
    scene.add_body(client.register_mesh(*box((-0.25, -0.2, -0.2), (0.25, 0.2, 0.2))), crate, modulus=1e7)
    scene.add_body(client.register_mesh(*torus(0.22, 0.09, 96, 48)), at(0.08, 0, 0.065), modulus=1e7)
    scene.add_body(client.register_mesh(*blob(0.26, 5, 0.08)), at(0.65, 0, 0.215), modulus=1e7)
    scene.step(want="frame")
    return scene.snapshot(width=1000, height=450, azimuth=-80, elevation=38, zoom=1.1, opacity=0.22, show=("bodies", "surface"))


def pile(client: contactd.Client) -> bytes:
    """Bodies that were let go over a floor, and have come to rest by the law `pressure`."""
    scene = client.open_scene(law="pressure", stiction_speed=0.02)
    scene.add_half_space((0, 0, 1), 0.0, friction=0.6)
    radius, mass, h, n = 0.1, 1.0, 1e-3, 14
    mesh = client.register_mesh(*blob(radius, 3, 0.1))
    inertia = 0.4 * mass * radius**2
    generator = np.random.default_rng(3)
    poses = np.tile(np.eye(4)[:3], (n, 1, 1))
    poses[:, :2, 3] = 0.12 * generator.uniform(-1, 1, (n, 2))
    poses[:, 2, 3] = 0.13 + 0.17 * np.arange(n)
    bodies = [scene.add_body(mesh, pose=pose, modulus=1e6, friction=0.6, dissipation=2.0) for pose in poses]
    velocities = np.zeros((n, 6))
    for _ in range(1500):
        result = scene.step(poses=(bodies, poses), velocities=(bodies, velocities), want="frame")
        wrenches = np.array([result.wrench(body) for body in bodies])
        velocities[:, :3] += h * (wrenches[:, :3] / mass + [0, 0, -9.81])
        velocities[:, 3:] += h * wrenches[:, 3:] / inertia
        velocities *= 1 - 2 * h  # air
        poses[:, :, 3] += h * velocities[:, :3]
        for pose, w in zip(poses, h * velocities[:, 3:]):
            cross = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
            u, _, vt = np.linalg.svd((np.eye(3) + cross) @ pose[:, :3])
            pose[:, :3] = u @ vt
    return scene.snapshot(width=800, height=450, azimuth=-60, elevation=18, zoom=0.8, show=("bodies", "contacts"))


@contextlib.contextmanager
def served() -> Iterator[tuple[str, str]]:
    """Addresses of a server of its own, of the stream and over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        stream, http = f"tcp://127.0.0.1:{a.getsockname()[1]}", f"127.0.0.1:{b.getsockname()[1]}"
    program = os.environ.get("CONTACTD_PROGRAM", "contactd")
    server = subprocess.Popen([program, "--stream", stream, "--http", http, "--log-level", "error"])
    try:
        yield stream, f"http://{http}"
    finally:
        server.terminate()
        server.wait()


def page() -> bytes:
    """The live page, in Chromium, which draws what the server tells it: stones that overlap on a floor, with forces and pressures."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))))
    with served() as (stream, http), contactd.connect(stream, timeout=300, wait=60) as client, sync_playwright() as playwright:
        scene = client.open_scene(name="stones", law="pressure", margin=0.08, max_points=4)
        scene.add_half_space((0, 0, 1), 0.0, friction=0.6)
        mesh = client.register_mesh(*blob(0.25, 4, 0.1))
        places = ((0, 0, 0.22), (0.43, 0.05, 0.22), (0.2, 0.38, 0.23), (0.2, 0.12, 0.58), (-0.5, 0.1, 0.23))
        bodies = {scene.add_body(mesh, at(*place), modulus=1e6, friction=0.6): np.zeros(6) for place in places}
        scene.step(velocities=bodies, want=("frame", "forces", "surface", "points"))
        browser = playwright.chromium.launch(executable_path=program, args=[
            "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--disable-dev-shm-usage"])
        tab = browser.new_page(viewport={"width": 1000, "height": 1000})
        tab.goto(f"{http}/#scene/{scene.id}")
        while not tab.evaluate("() => window.contactdView?.drawn > 3 && contactdView.size !== 1"):
            tab.wait_for_timeout(100)
        tab.evaluate("() => contactdView.turn(0, 0, 1.5)")
        tab.wait_for_timeout(2000)  # until all is drawn as fine as it is
        picture: bytes = tab.screenshot()
        browser.close()
    return picture


FIGURES = {"nut.png": nut_on_bolt, "exact.png": exact, "ldi.png": ldi, "ebpi.png": ebpi, "voxtree.png": voxtree, "patches.png": patches,
           "surface.png": surface, "pile.png": pile}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with contactd.connect("embedded", timeout=300) as client:
        for name, draw in FIGURES.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            (IMAGES / name).write_bytes(draw(client))
            print(f"docs/images/{name}: {(IMAGES / name).stat().st_size} bytes")
    if not sys.argv[1:] or "page.png" in sys.argv[1:]:
        (IMAGES / "page.png").write_bytes(page())


if __name__ == "__main__":
    main()
