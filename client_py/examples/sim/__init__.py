"""A reference simulator: small enough to read, correct enough to test with. It gets every contact from a contactd server.

    build/contactd &                                       # the server
    cd client_py/examples && python -m sim                 # a pile of stools and a soft ball; --help names the options

    import contactd                                        # client_py and client_py/examples on PYTHONPATH
    from shapes import stool
    from sim import HalfSpace, Options, RigidBody, World, step

    with contactd.connect() as client:
        bodies = [HalfSpace((0, 0, 1), -0.2), RigidBody(stool(), density=500.0)]
        with World(client, bodies, patches=True) as world:
            for _ in range(100):
                report = step(world, 0.01, Options(friction=0.5, target_depth=1e-3))

It needs numpy alone. It exists to test the server and to teach: matrices are dense, loops are Python's. Simulators bring
their own.

A contact has one volume, hence one pressure, which cannot resist a tilt: a cube that stands on a floor rocks by about its
depth over its half length. Where that matters, give a pair several contacts: the setting `patches` makes one of each
connected piece, such as a foot, and `cell_size` one of each cube of a grid.

| file             | subject                                                                                       |
| ---------------- | --------------------------------------------------------------------------------------------- |
| mass.py          | mass, centre of mass and inertia of a closed mesh, in closed form                               |
| quaternion.py    | rotations                                                                                       |
| rigid.py         | rigid bodies, driven bodies, half-spaces                                                        |
| deformable.py    | co-rotational finite elements, those of examples/soft.py, with their matrix                     |
| world.py         | bodies in a scene of the server; a contact as rows over velocities (Allard 2010, eq. 20-21)     |
| pgs.py           | projected Gauss-Seidel, pyramidal Coulomb friction                                              |
| constraints.py   | a step by constraints on volumes (Allard 2010, Algorithm 1)                                     |
| penalty.py       | a step by penalty forces and implicit Euler (Faure 2008, section 3.3)                           |

Every body has `velocity` (n_dof,) and these functions, which are all that a step needs of it:

    update()                        its pose or its positions, as Scene.step takes them
    begin_step(h)                   prepares A = M - h B - h^2 K of eq. 2
    free_velocity(h, gravity)       velocity at the end of the step if nothing touches it
    apply(x), apply_inverse(x)      A x and A^-1 x of (n_dof,) or (n_dof, m); A^-1 is 0 for what nothing moves
    volume_gradient(contact)        (n_dof,) dV/dq, m^2
    friction_rows(contact)          (2, n_dof) sum of A_k t . dp_k/dq for both tangents t
    motion(), friction(contact)     its velocities as Scene.step takes them; the server's viscous friction as (n_dof,)
    to_vertices(v), from_vertices(f)  velocities of all vertices, and forces on them as generalised ones
    displace(dq), advance(h)        moves by dq; by h velocity
    kinetic_energy(), linear_momentum(), angular_momentum()
"""

from .constraints import Options, Report, step
from .deformable import DeformableBody
from .penalty import step_by_penalty
from .rigid import HalfSpace, RigidBody
from .world import World

__all__ = ["DeformableBody", "HalfSpace", "Options", "Report", "RigidBody", "World", "step", "step_by_penalty"]
