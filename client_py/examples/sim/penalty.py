"""A step by penalty forces f = -k V dV/dx and implicit Euler (Faure 2008, section 3.3)."""

from __future__ import annotations

import numpy as np

from .world import ContactRows, World

MOST_PRODUCTS = 1000  # contacts have a few eigenvalues each, so steps take some ten


def step_by_penalty(world: World, h: float, viscosity: float = 0.0, tolerance: float = 1e-10, *,
                    friction: float = 0.0) -> list[ContactRows]:
    """Moves the world's bodies by h s; their stiffness k is the scene's, N/m^5.

    The new velocities v solve (A - h^2 K + h D) v = A v_free + h f with conjugate gradients. A and v_free are the bodies'
    own, f the contacts' forces now, and K = -k (dV/dx)^T (dV/dx) their stiffness without the change of dV/dx (eq. 2), of
    which StepResult.stiffness_product gives products. D are viscous forces -viscosity v_rel A_k on vertices (Allard 2010,
    section 4.2), viscosity in N s/m^5.

    friction: N s/m^3, viscous friction per area and sliding speed as the server computes it from the bodies' velocities at
    the beginning of the step (Faure 2008, section 3.3; contact.friction): a mean slide, which is implicit here, and a turn
    about the normal, which is explicit: with bodies of moment I about the normal and contacts of area a it is stable for
    h friction a^2 / (2 pi I) < 2.

    Returns: the contacts at the beginning of the step.
    Raises: RuntimeError where conjugate gradients do not converge.
    """
    contacts = world.collide(divided=False, viscosity=friction)
    bodies = world.bodies
    free, push = [], []
    for body in bodies:
        body.begin_step(h)
        free.append(body.free_velocity(h, world.gravity))
        push.append(np.zeros(body.n_dof))
    for c in contacts:
        for i, rows in c.rows.items():
            push[i] += h * world.scene.stiffness * c.volume * rows[0]
            if friction and c.area > 0:
                push[i] += h * bodies[i].friction(c.contact)
    # The slide in the server's friction is the one at the beginning: its implicit form takes its place.
    drag = [viscosity + (friction / c.area if c.area > 0 else 0.0) for c in contacts]
    for c in contacts if friction else ():
        if c.area > 0:
            relative = sum(rows[1:] @ bodies[i].velocity for i, rows in c.rows.items())
            for i, rows in c.rows.items():
                push[i] += h * friction / c.area * relative @ rows[1:]

    def contact_part(v: list[np.ndarray]) -> list[np.ndarray]:
        """(h D - h^2 K) v."""
        product = world.result.stiffness_product({body.handle: body.to_vertices(x) for body, x in zip(bodies, v)})
        out = [-h * h * body.from_vertices(product[body.handle]) if body.handle in product else np.zeros(body.n_dof)
               for body in bodies]
        for c, nu in zip(contacts, drag) if viscosity or friction else ():
            relative = sum(rows[1:] @ v[i] for i, rows in c.rows.items())
            for i, rows in c.rows.items():
                out[i] += h * nu * relative @ rows[1:]
        return out

    # The bodies' own velocities solve their part, so the residual begins with the contacts' part, and A^-1 as
    # preconditioner leaves a few eigenvalues for each contact. Driven bodies have A^-1 = 0: no direction moves them.
    velocity = free
    residual = [f - c for f, c in zip(push, contact_part(velocity))]
    z = [body.apply_inverse(r) for body, r in zip(bodies, residual)]
    direction, rz = z, _dot(residual, z)
    stop = tolerance**2 * rz
    products = 0
    while rz > stop:
        products += 1
        if products > MOST_PRODUCTS:
            raise RuntimeError(f"conjugate gradients have not converged after {MOST_PRODUCTS} products with the stiffness "
                               f"{world.scene.stiffness:g} of {len(contacts)} contacts")
        image = [body.apply(d) + c for body, d, c in zip(bodies, direction, contact_part(direction))]
        alpha = rz / _dot(direction, image)
        velocity = [v + alpha * d for v, d in zip(velocity, direction)]
        residual = [r - alpha * q for r, q in zip(residual, image)]
        z = [body.apply_inverse(r) for body, r in zip(bodies, residual)]
        rz, old = _dot(residual, z), rz
        direction = [s + rz / old * d for s, d in zip(z, direction)]
    for body, v in zip(bodies, velocity):
        body.velocity = v
        body.advance(h)
    return contacts


def _dot(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(sum(x @ y for x, y in zip(a, b)))
