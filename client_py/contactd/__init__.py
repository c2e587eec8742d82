"""Client of contactd, the contact-computation service for physics simulators.

    import numpy as np, contactd

    with contactd.connect("tcp://127.0.0.1:5555") as client:
        mesh = client.register_mesh(vertices, triangles)
        scene = client.open_scene()
        a = scene.add_body(mesh)                         # deformable: positions every step
        b = scene.add_body(mesh, pose=np.eye(4))         # rigid: a pose
        result = scene.step(positions={a: x}, poses={b: T})
        for contact in result.contacts:
            vertices, gradient = contact.gradient(a)     # sparse dV/dx, m^2

Errors are in contactd.errors; all derive from ContactdError.
"""

from . import errors
from ._link import VERSION as __version__
from .body import Body
from .client import Client, Mesh, MeshChange, MeshRepair, Overlap, connect, connect_async
from ._judge import Report, Worst, judge
from .engine import Engine
from .errors import ContactdError, ErrorCode, UnreachableError
from ._many import ManyResult, Scenes
from .result import Contact, PairProgress, Points, Separation, StepResult, StepWarning
from .scene import Future, Scene, plane_pose
from ._surface import Surface

__all__ = ["Body", "Client", "Contact", "ContactdError", "Engine", "ErrorCode", "Future", "Mesh", "MeshChange", "MeshRepair",
           "ManyResult", "Overlap", "PairProgress", "Points", "Report", "Scene", "Scenes", "Separation", "StepResult", "StepWarning", "Surface", "UnreachableError", "Worst",
           "connect", "connect_async", "errors", "judge", "__version__", "plane_pose"]
