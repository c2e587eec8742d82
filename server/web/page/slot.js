// slot.js - one of the two bodies of the part "try": its mesh, from a file that is dropped or chosen, and its pose in numbers.
import { get, upload } from "./api.js";
import { button, count, make, number } from "./dom.js";

const UNITS = { m: 1, cm: 0.01, mm: 0.001, in: 0.0254 };
const AXES = ["x", "y", "z"];
// What may be done with a mesh that is refused, as the query of the upload says it.
const REMEDIES = {
  "Repair it": "repair=1", "Take its convex hull": "closing=hull", "Wrap it": "closing=wrap",
};

// Rotations about x, then y, then z, in degrees, and a translation: a row-major 3x4 matrix.
export function poseOf([x, y, z], [a, b, c]) {
  const [ca, cb, cc] = [a, b, c].map((v) => Math.cos(v * Math.PI / 180));
  const [sa, sb, sc] = [a, b, c].map((v) => Math.sin(v * Math.PI / 180));
  return [
    cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa, x,
    sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa, y,
    -sb, cb * sa, cb * ca, z,
  ].map((v) => Number(v.toPrecision(15)));
}

export class Slot {
  // place: a fieldset; name: "a" or "b"; changed(is_new_mesh): somebody changed mesh or pose.
  constructor(place, name, changed) {
    Object.assign(this, { place, name, changed, mesh: null, file: null, query: "" });
    this.input = make("input");
    this.input.type = "file";
    this.input.accept = ".glb,.gltf,.obj,.off,.ply,.stl";
    this.input.id = `file-${name}`;
    this.input.addEventListener("change", () => this.take(this.input.files[0]));
    const label = make("label", "Mesh file (GLB, OBJ, OFF, PLY, STL), chosen or dropped here");
    label.htmlFor = this.input.id;
    this.unit = make("select");
    this.unit.append(...Object.keys(UNITS).map((unit) => make("option", unit)));
    this.unit.addEventListener("change", () => this.file && this.take(this.file));
    const unit = make("label", "in ");
    unit.append(this.unit);
    this.note = make("p", "No mesh yet.", "note");
    this.note.role = "status";
    this.remedies = make("p", undefined, "bar");
    this.numbers = [];
    const grid = make("div", undefined, "numbers");
    for (const [kind, words] of [["at", "m along"], ["turn", "° about"]]) {
      for (const axis of AXES) {
        const input = make("input");
        input.type = "number";
        input.step = "any";
        input.value = 0;
        input.id = `${name}-${kind}-${axis}`;
        input.addEventListener("input", () => this.changed(false));
        const text = make("label", `${words} ${axis}`);
        text.append(input);
        this.numbers.push(input);
        grid.append(text);
      }
    }
    place.append(label, this.input, unit, this.note, this.remedies, grid);
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      this.take(event.dataTransfer.files[0]);
    });
  }

  get values() { return this.numbers.map((input) => Number(input.value) || 0); }

  set values(values) { this.numbers.forEach((input, i) => { input.value = number(values[i] ?? 0, 6); }); }

  get pose() { return poseOf(this.values.slice(0, 3), this.values.slice(3)); }

  async take(file, remedy = "") {
    if (!file) return;
    this.file = file;
    const scale = UNITS[this.unit.value];
    const words = [`name=${encodeURIComponent(file.name.slice(0, 40))}`, remedy, scale === 1 ? "" : `scale=${scale}`].filter(Boolean);
    this.#say(`reading ${file.name}`);
    try {
      const mesh = await upload(file, `?${words.join("&")}`);
      this.query = words.slice(1).join("&");
      // Two meshes in the same place would be hard to tell apart.
      if (this.name === "b" && this.values.every((value) => value === 0)) this.values = [0.6 * (mesh.hi[0] - mesh.lo[0]), 0, 0, 0, 0, 0];
      this.#use(mesh);
    } catch (error) {
      this.mesh = null;
      this.#say(`${file.name}: ${error.message}`, true);
      const offered = error.problem?.code === "INVALID_MESH" ? Object.entries(REMEDIES).filter(([, query]) => query !== remedy) : [];
      this.remedies.replaceChildren(...offered.map(([text, query]) => button(text, () => this.take(file, query))));
      this.changed(true);
    }
  }

  // A mesh that the server has.
  async use(hash) {
    try {
      this.#use(await get(`v1/meshes/${encodeURIComponent(hash)}`));
    } catch (error) {
      this.#say(error.status === 404 ? `the server has no mesh ${hash} any more: drop its file here` : error.message, true);
    }
  }

  #use(mesh) {
    this.mesh = mesh;
    const repaired = mesh.repair?.changed ? ", repaired" : mesh.closing ? `, closed by its ${mesh.closing}` : "";
    const size = mesh.hi.map((hi, i) => number(hi - mesh.lo[i], 3)).join(" × ");
    this.#say(`${mesh.name || mesh.hash.slice(0, 12)}: ${count(mesh.triangles)} triangles, ${size} m, ${number(mesh.volume, 4)} m³${repaired}`);
    this.changed(true);
  }

  #say(text, is_bad = false) {
    this.note.textContent = text;
    this.note.className = is_bad ? "note bad" : "note";
    this.remedies.replaceChildren();
  }
}
