"""Pictures of triangle meshes with numpy alone: a z-buffer with smooth shading, a shadow and translucent bodies.

Camera and lights are set up from the bodies' extent. No display, no graphics library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BACKGROUND = (np.array([1.0, 1.0, 1.0]), np.array([0.86, 0.89, 0.93]))  # bottom, top
SUPERSAMPLING = 2


@dataclass
class Solid:
    vertices: np.ndarray  # (n, 3)
    triangles: np.ndarray  # (m, 3)
    color: tuple[float, float, float]
    crease: float = 0.7  # faces that turn by more than this (radians) keep their edge


class Camera:
    """Orthographic, z up; azimuth and elevation in degrees; shows a ball around `center`."""

    def __init__(self, center: np.ndarray, radius: float, azimuth: float, elevation: float, width: int, height: int):
        a, e = np.radians([azimuth, elevation])
        back = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        right = np.array([-np.sin(a), np.cos(a), 0.0])
        self.axes = np.stack([right, np.cross(back, right), back])  # rows: right, up, towards the eye
        self.center, self.width, self.height = np.asarray(center, float), width, height
        self.scale = min(width, height) / (2 * radius)

    def project(self, points: np.ndarray) -> np.ndarray:
        """x, y in pixels (y down), and depth, larger nearer."""
        p = (points - self.center) @ self.axes.T
        return np.stack([self.width / 2 + self.scale * p[..., 0], self.height / 2 - self.scale * p[..., 1], p[..., 2]], -1)


class Layer:
    """The nearest surface in every pixel: depth, normal, colour, and which solid it is (-1: none)."""

    def __init__(self, camera: Camera):
        n = camera.width * camera.height
        self.camera = camera
        self.depth = np.full(n, -np.inf)
        self.normal = np.zeros((n, 3))
        self.solid = np.full(n, -1)

    def draw(self, solid: Solid, number: int, beyond: np.ndarray | None = None, back: bool = False) -> None:
        """Draws a solid; `beyond`: only what lies deeper than that; `back`: the faces turned away."""
        corners = self.camera.project(solid.vertices)[solid.triangles]
        normals = corner_normals(solid)
        (x0, y0), (x1, y1), (x2, y2) = (corners[:, i, :2].T for i in range(3))
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        keep = np.flatnonzero((area > 1e-9 if back else area < -1e-9))  # y points down
        limit = np.array([self.camera.width, self.camera.height])
        lo = np.clip(np.floor(corners[:, :, :2].min(1) - 0.5).astype(int) + 1, 0, limit)
        size = np.clip(np.floor(corners[:, :, :2].max(1) - 0.5).astype(int) + 1, 0, limit) - lo
        keep = keep[(size[keep] > 0).all(1)]
        # Triangles of like size are drawn together, each as a block of pixels; large ones one by one.
        level = np.where(size.max(1) <= 64, np.ceil(np.log2(np.maximum(size.max(1), 1))).astype(int), -1)
        for s in np.unique(level[keep]):
            group = keep[level[keep] == s]
            parts = len(group) if s < 0 else max(1, len(group) * 4**s // 1_000_000)
            for t in np.array_split(group, parts):
                nx, ny = size[t[0]] if s < 0 else (1 << s, 1 << s)
                px = lo[t, 0, None, None] + np.arange(nx)[None, None, :]
                py = lo[t, 1, None, None] + np.arange(ny)[None, :, None]
                fx, fy = px + 0.5, py + 0.5
                e = lambda v: v[t, None, None]
                w1 = ((fx - e(x0)) * e(y2 - y0) - e(x2 - x0) * (fy - e(y0))) / e(area)
                w2 = (e(x1 - x0) * (fy - e(y0)) - (fx - e(x0)) * e(y1 - y0)) / e(area)
                hit = (w1 >= 0) & (w2 >= 0) & (w1 + w2 <= 1) & (px < limit[0]) & (py < limit[1])
                which, row, column = np.nonzero(hit)
                self._put(corners, normals, number, t[which], w1[hit], w2[hit],
                          (py[which, row, 0] * self.camera.width + px[which, 0, column]), beyond)

    def _put(self, corners, normals, number, t, w1, w2, pixel, beyond) -> None:
        w = np.stack([1 - w1 - w2, w1, w2], -1)
        depth = np.einsum("ij,ij->i", w, corners[t, :, 2])
        if beyond is not None:
            near = depth < beyond[pixel] - 1e-9
            t, w, depth, pixel = t[near], w[near], depth[near], pixel[near]
        np.maximum.at(self.depth, pixel, depth)
        won = depth == self.depth[pixel]
        pixel, t, w = pixel[won], t[won], w[won]
        self.normal[pixel] = np.einsum("ij,ijk->ik", w, normals[t])
        self.solid[pixel] = number


def corner_normals(solid: Solid) -> np.ndarray:
    """(m, 3, 3) smooth normals, but for corners where the face turns away too much from the vertex's mean."""
    a, b, c = np.moveaxis(solid.vertices[solid.triangles], 1, 0)
    face = np.cross(b - a, c - a)
    mean = np.stack([np.bincount(solid.triangles.ravel(), np.repeat(face[:, k], 3), len(solid.vertices)) for k in range(3)], -1)
    unit = lambda v: v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300)
    face, smooth = unit(face)[:, None, :], unit(mean)[solid.triangles]
    return np.where(np.einsum("ijk,ijk->ij", face, smooth)[..., None] > np.cos(solid.crease), smooth, face + 0 * smooth)


def shade(layer: Layer, colors: np.ndarray, lit: np.ndarray | None = None) -> np.ndarray:
    """Colours of the covered pixels under a key light from the upper left, a sky, and a faint rim."""
    covered = layer.solid >= 0
    n = layer.normal[covered].astype(np.float32)
    n /= np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-30)
    back, key = layer.camera.axes[2].astype(np.float32), _key(layer.camera).astype(np.float32)
    lit = np.float32(1) if lit is None else lit
    diffuse = np.clip(n @ key, 0, 1) * lit
    sky = 0.5 + 0.5 * n[:, 2]
    shine = np.clip(n @ _unit(key + back), 0, 1) ** 40 * lit
    rim = (1 - np.clip(np.abs(n @ back), 0, 1)) ** 3
    out = colors.astype(np.float32)[layer.solid[covered]]
    out *= (0.36 * sky + 0.16 + 0.64 * diffuse)[:, None]
    out += (0.18 * shine + 0.08 * rim)[:, None]
    return np.clip(out, 0, 1, out)


def _key(camera: Camera) -> np.ndarray:
    right, up, back = camera.axes
    return _unit(-0.55 * right + 0.75 * up + 0.65 * back)


def shadow(layer: Layer, solids: list[Solid], radius: float) -> np.ndarray:
    """For the covered pixels: 1 where the key light arrives, 0 where another surface is in the way; softened."""
    camera, key = layer.camera, _key(layer.camera)
    size = 700
    light = Camera(camera.center, radius * 1.6, np.degrees(np.arctan2(key[1], key[0])), np.degrees(np.arcsin(key[2])),
                   size, size)
    seen = Layer(light)
    for i, solid in enumerate(solids):
        seen.draw(solid, i, back=True)  # back faces: no surface shadows itself by rounding
    covered = np.flatnonzero(layer.solid >= 0)
    y, x = np.divmod(covered, camera.width)
    p = np.stack([(x + 0.5 - camera.width / 2) / camera.scale, -(y + 0.5 - camera.height / 2) / camera.scale,
                  layer.depth[covered]], -1) @ camera.axes + camera.center
    q = light.project(p)
    total = np.zeros(len(covered))
    taps = [(dx, dy) for dx in (-2.5, -0.8, 0.8, 2.5) for dy in (-2.5, -0.8, 0.8, 2.5)]
    for dx, dy in taps:
        u = np.clip((q[:, 0] + dx).astype(int), 0, size - 1)
        v = np.clip((q[:, 1] + dy).astype(int), 0, size - 1)
        total += q[:, 2] > seen.depth[v * size + u] - 0.012 * radius
    return (total / len(taps)).astype(np.float32)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def picture(solids: list[Solid], center: np.ndarray, radius: float, azimuth: float, elevation: float, width: int = 640,
            height: int = 640, opacity: float = 1.0, spans: tuple[np.ndarray, np.ndarray] | None = None,
            dot: float = 2.0) -> np.ndarray:
    """(height, width, 3) picture, 0 to 1.

    Args:
        opacity: of the solids; below 1, spans shine through them.
        spans: (s, 2, 3) of a contact, and (s, 3) their colours.
        dot: radius of a span's end, pixels.
    """
    w, h = width * SUPERSAMPLING, height * SUPERSAMPLING
    camera = Camera(center, radius, azimuth, elevation, w, h)
    layer = Layer(camera)
    for i, solid in enumerate(solids):
        layer.draw(solid, i)
    colors = np.array([s.color for s in solids])
    t = np.linspace(1, 0, h)[:, None, None]
    ground = np.broadcast_to(BACKGROUND[0] * (1 - t) + BACKGROUND[1] * t, (h, w, 3)).reshape(-1, 3)
    covered = layer.solid >= 0
    image = ground.copy()
    image[covered] = shade(layer, colors, 0.25 + 0.75 * shadow(layer, solids, radius) if opacity >= 1 else None)
    if opacity < 1:
        # Behind the front, the next surface, fainter; and the outline of what is near.
        second = Layer(camera)
        for i, solid in enumerate(solids):
            second.draw(solid, i, beyond=np.where(covered, layer.depth, np.inf))
        behind = ground.copy()
        seen = second.solid >= 0
        behind[seen] = 0.5 * opacity * shade(second, colors) + (1 - 0.5 * opacity) * ground[seen]
        normal = layer.normal[covered]
        facing = np.abs(normal @ camera.axes[2]) / np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
        alpha = (opacity + (1 - opacity) * 0.7 * (1 - np.clip(facing, 0, 1)) ** 2)[:, None]
        image[covered] = alpha * image[covered] + (1 - alpha) * behind[covered]
    if spans is not None and len(spans[0]):
        _draw_spans(image, camera, *spans, dot * SUPERSAMPLING)
    image = image.reshape(height, SUPERSAMPLING, width, SUPERSAMPLING, 3).mean((1, 3))
    return np.clip(image, 0, 1)


def _draw_spans(image: np.ndarray, camera: Camera, spans: np.ndarray, colors: np.ndarray, size: float) -> None:
    """Both ends of every span as dots, lit by depth and hidden by each other but by nothing else."""
    p = camera.project(np.asarray(spans, float))
    q, color = p.reshape(-1, 3), np.repeat(colors, 2, axis=0)
    lo, hi = q[:, 2].min(), q[:, 2].max()
    tone = 0.6 + 0.4 * (q[:, 2] - lo) / max(hi - lo, 1e-300)
    x, y = np.floor(q[:, 0]).astype(int), np.floor(q[:, 1]).astype(int)
    r = max(1, round(size))
    buffer = np.full(camera.width * camera.height, -np.inf)
    for dx in range(-r, r + 1):
        for dy in range(-r, r + 1):
            inside = ((x + dx >= 0) & (x + dx < camera.width) & (y + dy >= 0) & (y + dy < camera.height)
                      & (dx * dx + dy * dy <= r * r + 1))
            pixel = (y + dy)[inside] * camera.width + (x + dx)[inside]
            depth = q[inside, 2]
            np.maximum.at(buffer, pixel, depth)
            won = buffer[pixel] == depth
            edge = 0.72 if dx * dx + dy * dy > (r - 1) ** 2 + 1 else 1.0
            image[pixel[won]] = color[inside][won] * (edge * tone[inside][won])[:, None]
