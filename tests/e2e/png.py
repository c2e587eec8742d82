"""A PNG file as numbers, read by hand: 8 bits a channel, RGB or RGBA, not interlaced, which is what contactd writes."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def read_png(data: bytes) -> np.ndarray:
    """(height, width, 3 or 4) of uint8, the top row first. Every chunk's checksum must be right."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:16]
    at, packed, head, ended = 8, b"", None, False
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        ended = kind == b"IEND"
        at += 12 + size
    assert ended and head is not None
    width, height, depth, color, *rest = head
    assert depth == 8 and color in (2, 6) and rest == [0, 0, 0]
    channels = 4 if color == 6 else 3
    stride = width * channels
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, stride + 1)
    out = np.zeros((height, stride), np.uint8)
    above = np.zeros(stride, np.uint8)
    for y in range(height):
        out[y] = above = unfilter(raw[y, 0], raw[y, 1:], above, channels)
    return out.reshape(height, width, channels)


def unfilter(how: int, line: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    if how == 0:
        return line
    if how == 2:
        return line + above
    out = [0] * step + line.tolist()
    before, over = [0] * step + above.tolist(), 0
    for i in range(step, len(out)):
        left, up, corner = out[i - step], before[i], before[i - step]
        if how == 1:
            over = left
        elif how == 3:
            over = (left + up) // 2
        else:
            near = left + up - corner
            over = min((abs(near - left), 0, left), (abs(near - up), 1, up), (abs(near - corner), 2, corner))[2]
        out[i] = (out[i] + over) & 255
    return np.array(out[step:], np.uint8)


def hues(pixels: np.ndarray) -> np.ndarray:
    """(height, width) of 0 for grey and pale pixels, 1, 2, 3 where red, green, blue stands out."""
    rgb = pixels[..., :3].astype(int)
    best, second = rgb.max(-1), np.sort(rgb, -1)[..., 1]
    return np.where(best - second > 45, rgb.argmax(-1) + 1, 0)
