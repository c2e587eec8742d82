// export.js - bodies as they are shown, as a glTF 2.0 binary file: each mesh once, a node for each body.
const FLOATS = 5126;
const INTEGERS = 5125;
const VERTICES = 34962;
const INDICES = 34963;

// glTF keeps matrices by columns, and has the y axis upwards: the root node turns the z axis there.
const UPRIGHT = [1, 0, 0, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1];

class Document {
  constructor() {
    this.json = { asset: { version: "2.0", generator: "contactd" }, scene: 0, scenes: [{ nodes: [0] }], nodes: [{ matrix: UPRIGHT, children: [] }],
      meshes: [], materials: [], accessors: [], bufferViews: [], buffers: [] };
    this.parts = [];
    this.bytes = 0;
  }

  #add(array, target, accessor) {
    this.json.bufferViews.push({ buffer: 0, byteOffset: this.bytes, byteLength: array.byteLength, target });
    this.json.accessors.push({ bufferView: this.json.bufferViews.length - 1, ...accessor });
    this.parts.push(array);
    this.bytes += array.byteLength; // a multiple of 4, as all numbers have 4 bytes
    return this.json.accessors.length - 1;
  }

  // Gives [accessor of positions, accessor of indices].
  geometry(positions, indices) {
    const min = [Infinity, Infinity, Infinity];
    const max = [-Infinity, -Infinity, -Infinity];
    for (let i = 0; i < positions.length; i++) {
      min[i % 3] = Math.min(min[i % 3], positions[i]);
      max[i % 3] = Math.max(max[i % 3], positions[i]);
    }
    return [this.#add(positions, VERTICES, { componentType: FLOATS, count: positions.length / 3, type: "VEC3", min, max }),
      this.#add(indices, INDICES, { componentType: INTEGERS, count: indices.length, type: "SCALAR" })];
  }

  material(color) {
    const linear = (value) => (value / 255) ** 2.2;
    this.json.materials.push({ pbrMetallicRoughness: {
      baseColorFactor: [linear(color >> 16), linear((color >> 8) & 255), linear(color & 255), 1], metallicFactor: 0, roughnessFactor: 0.8 } });
    return this.json.materials.length - 1;
  }

  node(name, [POSITION, indices], material, matrix) {
    this.json.meshes.push({ primitives: [{ attributes: { POSITION }, indices, material }] });
    this.json.nodes.push({ name, mesh: this.json.meshes.length - 1, ...(matrix && { matrix }) });
    this.json.nodes[0].children.push(this.json.nodes.length - 1);
  }

  blob() {
    this.json.buffers.push({ byteLength: this.bytes });
    const text = new TextEncoder().encode(JSON.stringify(this.json));
    const json = new Uint8Array(Math.ceil(text.length / 4) * 4).fill(0x20);
    json.set(text);
    const head = new Uint32Array([0x46546c67, 2, 28 + json.length + this.bytes, json.length, 0x4e4f534a]);
    return new Blob([head, json, new Uint32Array([this.bytes, 0x004e4942]), ...this.parts], { type: "model/gltf-binary" });
  }
}

// bodies: Bodies. What is hidden, and half-spaces, which have no end, are left out. Null: nothing is left.
export function exportBodies(bodies) {
  const document = new Document();
  const meshes = new Map();
  for (const body of bodies.bodies.values()) {
    if (!body.geometry || bodies.hidden.has(body.id) || !(body.shown || body.own)) continue;
    const { data } = bodies.meshes.get(body.mesh);
    const positions = body.own ? body.geometry.getAttribute("position").array : data.positions;
    const geometry = (!body.own && meshes.get(body.mesh)) || document.geometry(positions, data.indices);
    if (!body.own) meshes.set(body.mesh, geometry);
    document.node(body.name ?? `body ${body.id}`, geometry, document.material(body.color), body.own ? null : body.matrix.toArray());
  }
  return document.json.nodes.length > 1 ? document.blob() : null;
}
