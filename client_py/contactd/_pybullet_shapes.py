"""What PyBullet itself collides of a link, as meshes and half-spaces. For pybullet."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._as_found import Makings, first_closed
from ._optional import check_version, need
from .client import Client, Mesh
from .errors import ErrorCode, error_for
from .scene import plane_pose

bullet: Any = need("pybullet", "contactd.pybullet")
check_version(bullet, "contactd.pybullet", (3, 2), (4, 0), package="pybullet")
Array = NDArray[np.float64]


def frame_of(position: Any, quaternion: Any) -> Array:
    """(4, 4)"""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = np.reshape(bullet.getMatrixFromQuaternion(quaternion), (3, 3)), position
    return out


def shapes_of(client: Client, body: int, link: int, making: Makings, physics: int) -> list[tuple[Mesh | None, Array]]:
    """Each a mesh and the place of its frame in the link's, (4, 4); None: a half-space, below the frame's x and y."""
    inertial = frame_of(*bullet.getDynamicsInfo(body, link, physicsClientId=physics)[3:5])
    out = []
    for index, (_, _, kind, size, file, position, quaternion) in enumerate(bullet.getCollisionShapeData(body, link, physicsClientId=physics)):
        place = inertial @ frame_of(position, quaternion)
        name = f"link {link} of body {body}"
        if kind == bullet.GEOM_SPHERE:
            mesh = client.sphere(size[0])
        elif kind == bullet.GEOM_BOX:
            mesh = client.box(size)
        elif kind == bullet.GEOM_CAPSULE:
            mesh = client.capsule(size[1], size[0])
        elif kind == bullet.GEOM_CYLINDER:
            mesh = client.cylinder(size[1], size[0])
        elif kind == bullet.GEOM_PLANE:
            mesh, place = None, place @ plane_pose(size)
        elif kind == bullet.GEOM_MESH and file != b"unknown_file":
            mesh = _load(client, file.decode(), size, name, making)
        elif kind == bullet.GEOM_MESH:
            mesh, place = _hull(client, body, link, index, name, physics), inertial
        else:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"PyBullet tells nothing of a shape of kind {kind}: give the link's mesh, {{({body}, {link}): mesh}}",
                            object=name, field="bodies")
        out.append((mesh, place))
    return out


def _load(client: Client, path: str, scale: Any, name: str, making: Makings) -> Mesh:
    if not scale[0] == scale[1] == scale[2]:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"{path} is scaled by {scale[0]:g}, {scale[1]:g} and {scale[2]:g} along its axes, expected one number: give "
                        "the link's mesh, (vertices, triangles)", object=name, field="bodies")
    return first_closed(functools.partial(client.load, path, name=f"{path} of {name}", scale=scale[0], **how) for how in ({}, *making))


def _hull(client: Client, body: int, link: int, index: int, name: str, physics: int) -> Mesh:
    """Of what was made of vertices, or of a cylinder in a URDF, PyBullet tells the hull's vertices alone, from the centre of mass; of what has no hull
    nothing."""
    _, corners = bullet.getMeshData(body, link, collisionShapeIndex=index, flags=bullet.MESH_DATA_SIMULATION_MESH, physicsClientId=physics)
    vertices = np.array(corners, float).reshape(-1, 3)
    if len(vertices) < 4:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"PyBullet does not tell its triangles: give the link's mesh, {{({body}, {link}): mesh}}", object=name,
                        field="bodies")
    return client.register_mesh(vertices, np.arange(len(vertices) - 2)[:, None] + np.arange(3), name=name, closing="hull")
