// contacts3d.js - contacts of one frame as three.js objects, drawn over the bodies, which would hide them: surfaces coloured by
// pressure, arrows for normals and forces, points; lines for bodies that come close without a contact.
import {
  BufferAttribute, BufferGeometry, DoubleSide, Group, InstancedMesh, LineBasicMaterial, LineSegments, Matrix4, Mesh,
  MeshBasicMaterial, Points, PointsMaterial, Vector3,
} from "./three.js";

const KINDS = {
  normal: { color: 0x2f9e44, length: 0.09 }, // length: of the scene's size
  force: { color: 0xe03131, length: 0.25 },
  torque: { color: 0x1c7ed6, length: 0.25 },
};
const SEPARATION = 0xbe4bdb;
// From no pressure to the largest: viridis' corners.
const RAMP = [[0.27, 0.0, 0.33], [0.23, 0.32, 0.55], [0.13, 0.57, 0.55], [0.37, 0.79, 0.38], [0.99, 0.91, 0.14]];

export function rampColor(x) {
  const at = Math.min(0.9999, Math.max(0, x)) * (RAMP.length - 1);
  const [a, b] = [RAMP[Math.floor(at)], RAMP[Math.floor(at) + 1]];
  return a.map((v, i) => v + (b[i] - v) * (at % 1));
}

// An arrow of length 1 along z: a shaft of four sides and a tip of six.
function arrowGeometry() {
  const positions = [];
  const ring = (n, radius, z) => Array.from({ length: n }, (_, i) => {
    const angle = 2 * Math.PI * i / n;
    return [radius * Math.cos(angle), radius * Math.sin(angle), z];
  });
  const low = ring(4, 0.02, 0);
  const high = ring(4, 0.02, 0.75);
  const base = ring(6, 0.07, 0.75);
  low.forEach((p, i) => positions.push(p, low[(i + 1) % 4], high[(i + 1) % 4], p, high[(i + 1) % 4], high[i]));
  base.forEach((p, i) => positions.push(p, base[(i + 1) % 6], [0, 0, 1], base[(i + 1) % 6], p, [0, 0, 0.75]));
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(Float32Array.from(positions.flat()), 3));
  return geometry;
}

// What acts on the first body: its force, and its torque about the contact's centre, where it is drawn. On the second body acts
// the opposite. The wrench is six numbers, or two times six, of both bodies, and has the torque about the body's origin.
function loadOf(contact, poses) {
  const wrench = Array.isArray(contact.wrench?.[0]) ? contact.wrench[0] : contact.wrench;
  if (!wrench) return null;
  const pose = poses.get(contact.bodies[0]); // none: a deformable body, whose origin is the world's
  const [x, y, z] = contact.center.map((v, k) => v - (pose ? pose[4 * k + 3] : 0));
  const [fx, fy, fz, tx, ty, tz] = wrench;
  return { force: [fx, fy, fz], torque: [tx - (y * fz - z * fy), ty - (z * fx - x * fz), tz - (x * fy - y * fx)] };
}

const times = (v, factor) => v.map((x) => factor * x);
const norm = (v) => Math.hypot(v[0], v[1], v[2]);

export class Contacts {
  constructor() {
    this.group = new Group();
    this.wanted = { surface: true, normal: true, force: true, points: true, separation: true };
    this.arrow = arrowGeometry();
    this.arrows = {};
    this.contacts = [];
    this.largest = { force: 0, torque: 0, pressure: 0 };
    const over = { depthTest: false, depthWrite: false, transparent: true };
    this.surface = new Mesh(new BufferGeometry(), new MeshBasicMaterial({ ...over, vertexColors: true, side: DoubleSide, opacity: 0.85 }));
    this.points = new Points(new BufferGeometry(), new PointsMaterial({ ...over, color: 0xffa94d, size: 6, sizeAttenuation: false }));
    this.chosen = new Points(new BufferGeometry(), new PointsMaterial({ ...over, color: 0xff00c8, size: 12, sizeAttenuation: false }));
    this.lines = new LineSegments(new BufferGeometry(), new LineBasicMaterial({ ...over, color: SEPARATION }));
    this.ends = new Points(new BufferGeometry(), new PointsMaterial({ ...over, color: SEPARATION, size: 5, sizeAttenuation: false }));
    this.over = over;
    for (const [i, object] of [this.surface, this.points, this.lines, this.ends, this.chosen].entries()) {
      object.frustumCulled = false;
      object.renderOrder = 1 + i;
      this.group.add(object);
    }
  }

  // size: of the scene, in m, by which arrows are as long as it suits. selected: index of a contact, or null. isFixed(body): arrows
  // are of what acts on the other one, which can move.
  setFrame({ contacts, poses, separations }, size, selected, isFixed) {
    this.contacts = contacts;
    const chosen = contacts[selected];
    this.#setPoints(this.chosen, chosen?.center ? [chosen.center] : []);
    this.#setPoints(this.points, this.wanted.points ? contacts.flatMap((c) => (c.points ?? []).map((p) => p.position ?? p)) : []);
    const ends = this.wanted.separation ? separations.flatMap((pair) => pair.points) : [];
    this.#setPoints(this.lines, ends);
    this.#setPoints(this.ends, ends);
    const lists = { normal: [], force: [], torque: [] };
    this.largest = { force: 0, torque: 0, pressure: 0 };
    for (const contact of contacts) {
      if (!contact.center) continue;
      const sign = isFixed(contact.bodies[0]) ? -1 : 1;
      if (this.wanted.normal && contact.normal && norm(contact.normal)) lists.normal.push([contact.center, times(contact.normal, sign)]);
      const load = this.wanted.force && loadOf(contact, poses);
      if (!load) continue;
      lists.force.push([contact.center, times(load.force, sign)]);
      lists.torque.push([contact.center, times(load.torque, sign)]);
    }
    for (const kind of ["force", "torque"]) for (const [, v] of lists[kind]) this.largest[kind] = Math.max(this.largest[kind], norm(v));
    for (const [kind, list] of Object.entries(lists)) {
      this.#setArrows(kind, list, KINDS[kind].length * size / (kind === "normal" ? 1 : this.largest[kind] || 1), KINDS[kind].length * size);
    }
    this.#setSurfaces(this.wanted.surface ? contacts.filter((c) => c.surface).map((c) => c.surface) : []);
  }

  #setPoints(object, list) {
    object.visible = list.length > 0;
    object.geometry.dispose();
    object.geometry = new BufferGeometry();
    object.geometry.setAttribute("position", new BufferAttribute(Float32Array.from(list.flat()), 3));
  }

  // list: pairs of a place and a vector, drawn `scale` times as long; `longest`: of those drawn, which sets the thickness.
  #setArrows(kind, list, scale, longest) {
    let object = this.arrows[kind];
    if (!object || object.instanceMatrix.count < list.length) {
      if (object) {
        this.group.remove(object);
        object.dispose();
      }
      object = new InstancedMesh(this.arrow, new MeshBasicMaterial({ ...this.over, color: KINDS[kind].color }), 2 * list.length + 16);
      object.frustumCulled = false;
      object.renderOrder = 6;
      this.arrows[kind] = object;
      this.group.add(object);
    }
    const [matrix, x, y, z] = [new Matrix4(), new Vector3(), new Vector3(), new Vector3()];
    object.count = 0;
    for (const [at, vector] of list) {
      const length = norm(vector) * scale;
      if (!(length > 0)) continue;
      z.fromArray(vector).normalize();
      x.set(Math.abs(z.x) > 0.9 ? 0 : 1, Math.abs(z.x) > 0.9 ? 1 : 0, 0).cross(z).normalize();
      y.crossVectors(z, x);
      const thickness = Math.min(longest, 4 * length); // a short arrow is a small one, not a disc
      matrix.makeBasis(x.multiplyScalar(thickness), y.multiplyScalar(thickness), z.multiplyScalar(length)).setPosition(...at);
      object.setMatrixAt(object.count++, matrix);
    }
    object.instanceMatrix.needsUpdate = true;
  }

  #setSurfaces(surfaces) {
    for (const { pressure } of surfaces) for (const p of pressure ?? []) this.largest.pressure = Math.max(this.largest.pressure, p);
    const positions = [];
    const colors = [];
    for (const { offsets, vertices, pressure } of surfaces) {
      for (let polygon = 0; polygon + 1 < offsets.length; polygon++) {
        for (let i = offsets[polygon] + 1; i + 1 < offsets[polygon + 1]; i++) {
          for (const v of [offsets[polygon], i, i + 1]) {
            positions.push(vertices[3 * v], vertices[3 * v + 1], vertices[3 * v + 2]);
            const value = pressure ? pressure[pressure.length === offsets.length - 1 ? polygon : v] : 0;
            colors.push(...rampColor(this.largest.pressure ? value / this.largest.pressure : 0.5));
          }
        }
      }
    }
    this.surface.visible = positions.length > 0;
    this.surface.geometry.dispose();
    this.surface.geometry = new BufferGeometry();
    this.surface.geometry.setAttribute("position", new BufferAttribute(Float32Array.from(positions), 3));
    this.surface.geometry.setAttribute("color", new BufferAttribute(Float32Array.from(colors), 3));
  }

  // The contact whose centre is nearest to a place on the screen, within `reach` pixels, or null. project: point -> [x, y].
  pick(place, reach, project) {
    let best = null;
    this.contacts.forEach((contact, i) => {
      if (!contact.center) return;
      const [x, y] = project(contact.center);
      const distance = Math.hypot(x - place[0], y - place[1]);
      if (distance <= (best?.distance ?? reach)) best = { index: i, distance };
    });
    return best?.index ?? null;
  }
}
