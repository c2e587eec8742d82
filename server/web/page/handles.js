// handles.js - three arrows at a body of a view, which are dragged to move it along x, y and z.
import { BufferAttribute, BufferGeometry, DoubleSide, Group, Mesh, MeshBasicMaterial, Vector3 } from "./three.js";

const COLORS = [0xd62828, 0x2a9d3f, 0x2468d8];
const GRAB_PX = 14;
const SIDES = 8;

// An arrow of length 1 along axis `a`.
function arrow(a) {
  const ring = (radius, along) => Array.from({ length: SIDES }, (_, i) => {
    const p = [0, 0, 0];
    p[a] = along;
    p[(a + 1) % 3] = radius * Math.cos(2 * Math.PI * i / SIDES);
    p[(a + 2) % 3] = radius * Math.sin(2 * Math.PI * i / SIDES);
    return p;
  });
  const tip = [0, 0, 0];
  tip[a] = 1;
  const [low, high, base] = [ring(0.02, 0), ring(0.02, 0.8), ring(0.07, 0.8)];
  const points = low.flatMap((p, i) => {
    const j = (i + 1) % SIDES;
    return [p, low[j], high[j], p, high[j], high[i], base[i], base[j], tip];
  });
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(Float32Array.from(points.flat()), 3));
  const material = new MeshBasicMaterial({ color: COLORS[a], side: DoubleSide, depthTest: false, transparent: true });
  const mesh = new Mesh(geometry, material);
  mesh.renderOrder = 9;
  mesh.frustumCulled = false;
  return mesh;
}

export class Handles {
  // moved(id, by): body `id` was dragged by a vector, in m.
  constructor(view, moved) {
    this.view = view;
    this.places = new Map(); // body -> {group, at}
    let grip = null;
    // Before the controls, which listen to the canvas itself, take the pointer for turning the view.
    const frame = view.canvas.parentElement;
    frame.addEventListener("pointerdown", (event) => {
      grip = event.target === view.canvas ? this.#grab(event) : null;
      view.controls.enabled = grip === null;
      if (grip) view.canvas.setPointerCapture(event.pointerId);
    }, true);
    frame.addEventListener("pointermove", (event) => {
      if (!grip) return;
      const along = this.#along(event, grip);
      const by = [0, 0, 0];
      by[grip.axis] = along - grip.along;
      grip.along = along;
      grip.at.setComponent(grip.axis, grip.at.getComponent(grip.axis) + by[grip.axis]);
      moved(grip.id, by);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      frame.addEventListener(end, () => {
        grip = null;
        view.controls.enabled = true;
      });
    }
  }

  // at: the middle of the body, in m; length: of the arrows.
  set(id, at, length) {
    let place = this.places.get(id);
    if (!place) {
      place = { group: new Group(), at: new Vector3() };
      for (const a of [0, 1, 2]) place.group.add(arrow(a));
      this.view.scene.add(place.group);
      this.places.set(id, place);
    }
    place.at.copy(at);
    place.length = length;
    place.group.position.copy(at);
    place.group.scale.setScalar(length);
    this.view.touch();
  }

  #pointer(event) {
    const box = this.view.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // The tip that is nearest to the pointer: {id, axis, at, along}, or null.
  #grab(event) {
    const [x, y] = this.#pointer(event);
    let best = null;
    for (const [id, { at, length }] of this.places) {
      for (const axis of [0, 1, 2]) {
        const tip = at.clone();
        tip.setComponent(axis, tip.getComponent(axis) + 0.9 * length);
        const [u, v] = this.view.project(tip.toArray());
        const distance = Math.hypot(u - x, v - y);
        if (distance < (best?.distance ?? GRAB_PX)) best = { id, axis, at: at.clone(), distance };
      }
    }
    if (best) best.along = this.#along(event, best);
    return best;
  }

  // Where on the axis through `at` the pointer is: the point of the axis that is closest to the pointer's ray.
  #along(event, { axis, at }) {
    const { origin, direction } = this.view.rayAt(this.#pointer(event)).ray;
    const unit = new Vector3().setComponent(axis, 1);
    const between = at.clone().sub(origin);
    const dot = unit.dot(direction);
    const scale = 1 - dot * dot;
    if (scale < 1e-6) return at.getComponent(axis);
    return at.getComponent(axis) + (dot * between.dot(direction) - between.dot(unit)) / scale;
  }
}
