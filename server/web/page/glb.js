// glb.js - reads the geometry of a mesh, glTF 2.0 binary with one mesh of one primitive, as the server writes it.
const COMPONENTS = { 5121: Uint8Array, 5123: Uint16Array, 5125: Uint32Array, 5126: Float32Array };
const WIDTHS = { SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4 };

// buffer: an ArrayBuffer. Gives {positions: Float32Array, indices: Uint32Array, origin: [x, y, z] that positions count from}; throws
// where it is something else.
export function readGlb(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 20 || view.getUint32(0, true) !== 0x46546c67) throw new Error("the geometry is no GLB file");
  let json = null;
  let binary = 0;
  for (let at = 12; at + 8 <= buffer.byteLength;) {
    const length = view.getUint32(at, true);
    const kind = view.getUint32(at + 4, true);
    if (kind === 0x4e4f534a) json = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, at + 8, length)));
    if (kind === 0x004e4942) binary = at + 8;
    at += 8 + length;
  }
  const primitive = json?.meshes?.[0]?.primitives?.[0];
  if (!primitive || !binary) throw new Error("the geometry's GLB file has no mesh");
  const values = (index) => {
    const accessor = json.accessors[index];
    const place = json.bufferViews[accessor.bufferView];
    const start = binary + (place.byteOffset ?? 0) + (accessor.byteOffset ?? 0);
    return new COMPONENTS[accessor.componentType](buffer, start, accessor.count * WIDTHS[accessor.type]);
  };
  return { positions: values(primitive.attributes.POSITION), indices: Uint32Array.from(values(primitive.indices)),
    origin: json.nodes?.[0]?.translation ?? [0, 0, 0] };
}

// Base64 as the array of the type.
export function decode(text, Type) {
  const binary = atob(text);
  const raw = new Uint8Array(binary.length);
  for (let i = 0; i < raw.length; i++) raw[i] = binary.charCodeAt(i);
  return new Type(raw.buffer);
}
