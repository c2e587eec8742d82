"""Bodies in a scene of the server, and its contacts as rows over their velocities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import contactd
import numpy as np

SLIVER = 1e-6  # of a contact's volume: cells with less are rounding at their walls, and their gradients say nothing


@dataclass
class ContactRows:
    """A contact, or a cell of one, as Allard 2010 constrains it.

    Attributes:
        contact: the server's answer; volume and area are its.
        rows: for each of its bodies, as an index into World.bodies, (3, n_dof). Row 0 is J = -dV/dq, so that J velocity
            >= 0 says that the volume does not grow (eq. 17) and pressure times J pushes bodies apart. Rows 1 and 2 are
            the tangents' of eq. 21; their sum over bodies times velocities is v_rel (eq. 20), m^3/s.
    """

    contact: contactd.Contact
    volume: float  # m^3
    area: float  # m^2
    rows: dict[int, np.ndarray]


class World:
    """Bodies and their scene. Use it in a `with` block, or close it.

    Args:
        client: of contactd.connect.
        bodies: RigidBody, DeformableBody, HalfSpace.
        gravity: (3,) m/s^2.
        ignore: pairs of indices of bodies that never touch.
        settings: of the scene, as client.open_scene takes them: method, resolution, patches, cell_size, stiffness and so on. By
            default the server chooses the method.
    """

    def __init__(self, client: contactd.Client, bodies: Sequence[Any], gravity: Sequence[float] = (0.0, 0.0, -9.81),
                 ignore: Sequence[tuple[int, int]] = (), **settings: Any) -> None:
        self.bodies, self.gravity = list(bodies), np.asarray(gravity, float)
        self.scene = client.open_scene(**settings)
        for i, body in enumerate(self.bodies):
            pairs = [min(p) for p in ignore if max(p) == i] + [j for j in range(i) if body.driven and self.bodies[j].driven]
            body.add_to(self.scene, ignore=[self.bodies[j].handle for j in pairs])
        self._index = {body.handle: i for i, body in enumerate(self.bodies)}
        self.result: contactd.StepResult | None = None

    def collide(self, divided: bool = True, viscosity: float = 0.0) -> list[ContactRows]:
        """The contacts of the bodies where they are now; each of their cells instead, where the scene has a cell_size (the
        multi-volume model, section 5).

        Args:
            divided: False for whole contacts, whatever the cell_size.
            viscosity: N s/m^3; > 0: the server is told the bodies' velocities, and gives slip and friction.
        """
        moves: dict[str, dict[contactd.Body, np.ndarray]] = {"positions": {}, "poses": {}}
        for body in self.bodies:
            if body.n_dof:
                moves["positions" if body.handle.kind == "deformable" else "poses"][body.handle] = body.update()
        if viscosity:
            moves["velocities"] = {body.handle: body.motion() for body in self.bodies if body.n_dof}
        self.result = self.scene.step(**moves, viscosity=viscosity, want=("frame", "gradient", "friction"))
        parts = []
        for contact in self.result.contacts:
            cells = contact.cells if divided and self.scene.cell_size else []
            parts += [c for c in cells if c.volume > SLIVER * contact.volume] if cells else [contact]
        return [self._rows(part) for part in parts]

    def _rows(self, contact: contactd.Contact) -> ContactRows:
        rows = {}
        for i in dict.fromkeys(self._index[handle] for handle in contact.bodies):
            body = self.bodies[i]
            rows[i] = np.vstack([-body.volume_gradient(contact), body.friction_rows(contact)])
        return ContactRows(contact, contact.volume, contact.area, rows)

    # ---- sums over all bodies that are not driven ----

    def _free(self) -> list[Any]:
        return [body for body in self.bodies if not body.driven]

    def kinetic_energy(self) -> float:
        """J."""
        return sum(body.kinetic_energy() for body in self._free())

    def linear_momentum(self) -> np.ndarray:
        """(3,) kg m/s."""
        return sum((body.linear_momentum() for body in self._free()), np.zeros(3))

    def angular_momentum(self) -> np.ndarray:
        """(3,) kg m^2/s about the world's origin."""
        return sum((body.angular_momentum() for body in self._free()), np.zeros(3))

    # ---- the end ----

    def close(self) -> None:
        self.scene.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
