#!/usr/bin/env python3
"""The smallest program: two boxes, one step, what the contact says.  simple.py [address]"""

import sys

import numpy as np

import contactd
import shapes

with contactd.connect(sys.argv[1] if len(sys.argv) > 1 else None) as client:
    box = client.register_mesh(*shapes.box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5)), name="box")
    scene = client.open_scene()
    a = scene.add_body(box)  # deformable: takes positions
    b = scene.add_body(box, pose=np.eye(4))  # rigid: takes poses

    pose = np.eye(4)
    pose[:3, 3] = 0.2, 0.1, 0.75
    result = scene.step(poses={b: pose})
    for contact in result.contacts:
        vertices, gradient = contact.gradient(a)
        print(f"volume {contact.volume:.6f} m^3, its error about {contact.error_estimate:.1e} m^3")
        print(f"area {contact.area:.6f} m^2, normal {contact.normal}")
        print(f"dV/dx of {len(vertices)} vertices of the first body adds up to {gradient.sum(0)} m^2")
        print(f"dV/d(pose) of the second: {contact.generalized_gradient(b)}")
    print(f"{result.method} in {result.latency * 1e6:.0f} us, backend {result.backend}")
