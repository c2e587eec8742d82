"""Draws the figures of the documentation with contactd itself: `make figures`."""

from __future__ import annotations

import sys
from pathlib import Path

import contactd
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "client_py" / "examples"))
from shapes import bolt, nut  # noqa: E402

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


FIGURES = {"nut.png": nut_on_bolt}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with contactd.connect("embedded", timeout=300) as client:
        for name, draw in FIGURES.items():
            (IMAGES / name).write_bytes(draw(client))
            print(f"docs/images/{name}: {(IMAGES / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
