// lod.js - a coarse copy of a mesh, for where it is small on the screen.

// Vertices that share a cube of a grid become one, at their mean; triangles that keep three different cubes stay, once each.
// cells: cubes along the longest side.
export function coarsen(positions, indices, cells) {
  const lo = [Infinity, Infinity, Infinity];
  const hi = [-Infinity, -Infinity, -Infinity];
  for (let i = 0; i < positions.length; i++) {
    lo[i % 3] = Math.min(lo[i % 3], positions[i]);
    hi[i % 3] = Math.max(hi[i % 3], positions[i]);
  }
  const side = Math.max(hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]) / cells || 1;
  const cubes = new Map();
  const n_vertices = positions.length / 3;
  const cube_of = new Uint32Array(n_vertices);
  const sums = [];
  for (let v = 0; v < n_vertices; v++) {
    const cell = [0, 1, 2].map((a) => Math.min(cells - 1, Math.floor((positions[3 * v + a] - lo[a]) / side)));
    const key = (cell[0] * cells + cell[1]) * cells + cell[2];
    let cube = cubes.get(key);
    if (cube === undefined) {
      cube = cubes.size;
      cubes.set(key, cube);
      sums.push([0, 0, 0, 0]);
    }
    cube_of[v] = cube;
    const sum = sums[cube];
    for (let a = 0; a < 3; a++) sum[a] += positions[3 * v + a];
    sum[3]++;
  }
  const kept = [];
  const seen = new Set();
  for (let t = 0; t < indices.length; t += 3) {
    let [a, b, c] = [cube_of[indices[t]], cube_of[indices[t + 1]], cube_of[indices[t + 2]]];
    if (a === b || b === c || c === a) continue;
    while (a > b || a > c) [a, b, c] = [b, c, a]; // the same triangle begins with the same vertex
    const key = (a * sums.length + b) * sums.length + c;
    if (seen.has(key)) continue;
    seen.add(key);
    kept.push(a, b, c);
  }
  return {
    positions: Float32Array.from(sums.flatMap((s) => [s[0] / s[3], s[1] / s[3], s[2] / s[3]])),
    indices: Uint32Array.from(kept),
  };
}
