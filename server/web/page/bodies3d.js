// bodies3d.js - a scene's bodies as three.js objects. Rigid bodies of one mesh share its geometry and are drawn in four calls:
// those that are large on the screen as they are, the others by coarse copies.
import {
  Box3, BufferAttribute, BufferGeometry, Color, DoubleSide, DynamicDrawUsage, GridHelper, Group, InstancedMesh, Matrix4, Mesh,
  MeshBasicMaterial, MeshLambertMaterial, PlaneGeometry, Sphere, Vector3,
} from "./three.js";
import { coarsen } from "./lod.js";

// Copies of a mesh, the mesh itself first. cells: along its longest side; from: triangles, smaller meshes have no such copy;
// radius: on the screen in pixels, above which bodies are drawn by it.
const COPIES = [
  { cells: 0, from: 0, radius: 90 },
  { cells: 20, from: 3000, radius: 30 }, // some 2,000 triangles
  { cells: 9, from: 600, radius: 12 }, // some 400
  { cells: 6, from: 300, radius: 0 }, // some 150
];
const PALETTE = [0x4e79a7, 0xf28e2b, 0x59a14f, 0xb07aa1, 0x76b7b2, 0xedc948, 0x9c755f, 0xff9da7];
const SELECTED = 0xffffff;

function geometryOf({ positions, indices }) {
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(positions, 3));
  geometry.setIndex(new BufferAttribute(indices, 1));
  geometry.computeBoundingBox();
  geometry.computeBoundingSphere();
  return geometry;
}

// p: rows of [R|t]; o: what the mesh's positions count from.
const setPose = (matrix, p, o) => matrix.set(
  p[0], p[1], p[2], p[3] + p[0] * o[0] + p[1] * o[1] + p[2] * o[2], p[4], p[5], p[6], p[7] + p[4] * o[0] + p[5] * o[1] + p[6] * o[2],
  p[8], p[9], p[10], p[11] + p[8] * o[0] + p[9] * o[1] + p[10] * o[2], 0, 0, 0, 1);
const ZERO = [0, 0, 0];

export class Bodies {
  constructor() {
    this.group = new Group();
    this.material = new MeshLambertMaterial({ flatShading: true }); // meshes are closed: no triangle is seen from behind
    this.meshes = new Map(); // hash -> {data, copies}; copies: geometries, or null, as COPIES
    this.bodies = new Map(); // id -> body
    this.instances = new Map(); // hash -> {rigid, copies}
    this.hidden = new Set();
    this.selected = null;
    this.sphere = new Sphere();
    this.color = new Color();
  }

  setOpacity(opacity) {
    const changed = (opacity < 1) !== this.material.transparent;
    this.material.transparent = opacity < 1;
    this.material.opacity = opacity;
    this.material.depthWrite = opacity === 1;
    this.material.needsUpdate = changed;
    for (const body of this.bodies.values()) {
      if (!body.own) continue;
      const { material } = body.own;
      Object.assign(material, { transparent: opacity < 1, opacity, depthWrite: opacity === 1, needsUpdate: changed });
    }
  }

  // list: as the event `scene` has it. load(hash) gives {positions, indices}, later. arrived() is called after each mesh.
  setBodies(list, load, arrived) {
    this.clear();
    list.forEach((facts, i) => {
      const body = { ...facts, matrix: new Matrix4(), shown: false, color: PALETTE[i % PALETTE.length] };
      this.bodies.set(facts.id, body);
      if (facts.kind === "half_space") this.#addPlane(body);
    });
    const wanted = new Set(list.filter((b) => b.mesh).map((b) => b.mesh));
    for (const hash of this.meshes.keys()) if (!wanted.has(hash)) this.#drop(hash);
    for (const hash of wanted) {
      const known = this.meshes.get(hash);
      if (known) this.#useMesh(hash, known);
      else load(hash).then((data) => {
        const copy = ({ cells, from }) => (data.indices.length > 3 * from ? geometryOf(coarsen(data.positions, data.indices, cells)) : null);
        const mesh = { data, copies: [geometryOf(data), ...COPIES.slice(1).map(copy)] };
        this.meshes.set(hash, mesh);
        this.#useMesh(hash, mesh);
        arrived(null);
      }).catch((error) => arrived(error));
    }
  }

  clear() {
    for (const child of [...this.group.children]) {
      this.group.remove(child);
      child.dispose?.();
      if (child.userData.own) child.geometry.dispose();
    }
    this.bodies.clear();
    this.instances = new Map();
  }

  #drop(hash) {
    for (const copy of this.meshes.get(hash).copies) copy?.dispose();
    this.meshes.delete(hash);
  }

  #addPlane(body) {
    const plane = new Group();
    const sheet = new Mesh(new PlaneGeometry(1, 1), new MeshBasicMaterial({
      color: 0x8090a0, transparent: true, opacity: 0.18, side: DoubleSide, depthWrite: false }));
    const grid = new GridHelper(1, 40, 0x808a94, 0x808a94); // in the plane of x and z
    grid.rotation.x = Math.PI / 2;
    Object.assign(grid.material, { transparent: true, opacity: 0.35, depthWrite: false });
    plane.add(sheet, grid);
    plane.matrixAutoUpdate = false;
    body.plane = plane;
    this.group.add(plane);
  }

  #useMesh(hash, mesh) {
    const rigid = [];
    for (const body of this.bodies.values()) {
      if (body.mesh !== hash) continue;
      body.geometry = mesh.copies[0];
      body.coarse = mesh.copies.findLast(Boolean);
      if (body.kind === "deformable") this.#addDeformable(body, mesh);
      else rigid.push(body);
    }
    if (!rigid.length) return;
    const make = (geometry) => {
      const object = new InstancedMesh(geometry, this.material, rigid.length);
      object.frustumCulled = false; // each body is looked at by itself
      object.instanceMatrix.setUsage(DynamicDrawUsage);
      object.setColorAt(0, this.color.set(0xffffff));
      object.count = 0;
      this.group.add(object);
      return object;
    };
    this.instances.set(hash, { rigid, copies: mesh.copies.map((copy) => copy && make(copy)) });
  }

  #addDeformable(body, mesh) {
    const geometry = geometryOf({ positions: mesh.data.positions.slice(), indices: mesh.data.indices });
    const material = this.material.clone();
    material.color.set(body.color);
    body.own = new Mesh(geometry, material);
    body.own.userData.own = true;
    body.own.frustumCulled = false;
    body.geometry = geometry;
    this.group.add(body.own);
  }

  // frame: of the history.
  setFrame(frame) {
    for (const body of this.bodies.values()) {
      const pose = frame.poses.get(body.id);
      if (pose) setPose(body.matrix, pose, this.meshes.get(body.mesh)?.data.origin ?? ZERO);
      body.shown = pose !== undefined;
      const positions = body.own && frame.positions.get(body.id);
      if (!positions || body.positions === positions) continue;
      body.positions = positions;
      body.shown = true;
      const attribute = body.geometry.getAttribute("position");
      if (attribute.array.length !== positions.length) continue;
      attribute.array.set(positions);
      attribute.needsUpdate = true;
      body.geometry.computeBoundingBox();
      body.geometry.computeBoundingSphere();
    }
  }

  #isVisible(body) {
    return (body.shown || body.own) && !this.hidden.has(body.id);
  }

  // Before each picture: which bodies are in it, by which copy, in which colour. height: of the picture, in pixels; haste: by
  // how much larger than usual a body must be for a finer copy; extent: of half-spaces, in m.
  prepare(camera, frustum, height, haste, extent) {
    const pixels = height / (2 * Math.tan(camera.fov * Math.PI / 360)) / haste;
    for (const { rigid, copies } of this.instances.values()) {
      const counts = copies.map(() => 0);
      for (const body of rigid) {
        if (!this.#isVisible(body)) continue;
        this.sphere.copy(body.geometry.boundingSphere).applyMatrix4(body.matrix);
        if (!frustum.intersectsSphere(this.sphere)) continue;
        const distance = Math.max(1e-9, camera.position.distanceTo(this.sphere.center));
        let copy = COPIES.findIndex(({ radius }) => this.sphere.radius * pixels / distance >= radius);
        while (!copies[copy]) copy--;
        const at = counts[copy]++;
        copies[copy].setMatrixAt(at, body.matrix);
        copies[copy].setColorAt(at, this.color.set(body.id === this.selected ? SELECTED : body.color));
      }
      copies.forEach((object, i) => {
        if (!object) return;
        object.count = counts[i];
        object.instanceMatrix.needsUpdate = object.instanceColor.needsUpdate = counts[i] > 0;
      });
    }
    for (const body of this.bodies.values()) {
      if (body.plane) {
        body.plane.visible = this.#isVisible(body);
        body.plane.matrix.copy(body.matrix).scale(new Vector3(extent, extent, extent));
      } else if (body.own) {
        body.own.visible = this.#isVisible(body);
        body.own.matrixAutoUpdate = false;
        body.own.matrix.copy(body.matrix);
        body.own.material.color.set(body.id === this.selected ? SELECTED : body.color);
      }
    }
  }

  // Of a body in the world, or null: not known yet, or without end.
  boxOf(id) {
    const body = this.bodies.get(id);
    if (!body?.geometry?.boundingBox) return null;
    return new Box3().copy(body.geometry.boundingBox).applyMatrix4(body.matrix);
  }

  // Of all that is shown and has an end.
  box() {
    const all = new Box3();
    for (const body of this.bodies.values()) {
      const box = this.#isVisible(body) && this.boxOf(body.id);
      if (box) all.union(box);
    }
    return all;
  }

  // The nearest body on the ray: {id, distance}, or null.
  pick(raycaster) {
    const probe = new Mesh(undefined, this.material);
    let best = null;
    for (const body of this.bodies.values()) {
      if (!body.geometry || !this.#isVisible(body)) continue;
      const hits = [];
      probe.geometry = body.own ? body.geometry : body.coarse ?? body.geometry;
      probe.matrixWorld.copy(body.matrix);
      probe.raycast(raycaster, hits);
      for (const hit of hits) if (!best || hit.distance < best.distance) best = { id: body.id, distance: hit.distance };
    }
    return best;
  }
}
