// try.js - the part "try": two meshes, where they are, and their contact by each method.
import { ask, get, refusal, send } from "./api.js";
import { button, byId, make, micros, number, table, triple } from "./dom.js";
import { readGlb } from "./glb.js";
import { Slot } from "./slot.js";
import { programs } from "./trycode.js";

const PAUSE_MS = 250; // after the last change
const TOLERANCE_REL = 0.01; // of ebpi
const MOST_TRIANGLES = 50000; // of a mesh whose contact surface is drawn

let view = null;
let handles = null;
let slots = null;
let methods = ["exact"];
let chosen = "exact"; // the method whose contact is shown
let timer = 0;
let round = 0; // answers to older questions are not shown
let fitted = false;
let contact = null;

const poses = () => new Map(slots.map((slot, i) => [i + 1, Float32Array.from(slot.pose)]));

function draw() {
  if (!view) return;
  view.setFrame({ poses: poses(), positions: new Map(), contacts: contact ? [contact] : [], separations: [] });
  if (!fitted && slots.every((slot, i) => !slot.mesh || view.bodies.boxOf(i + 1)) && !view.bodies.box().isEmpty()) {
    fitted = true;
    view.fit();
  }
  slots.forEach((slot, i) => {
    const box = slot.mesh && view.bodies.boxOf(i + 1);
    if (!box) return;
    const middle = box.getCenter(view.controls.target.clone());
    handles.set(i + 1, middle, 0.35 * box.getSize(middle.clone()).length());
  });
}

function showBodies() {
  fitted = false;
  const bodies = slots.flatMap((slot, i) => (slot.mesh ? [{ id: i + 1, kind: "rigid", mesh: slot.mesh.hash, triangles: slot.mesh.triangles }] : []));
  view?.bodies.setBodies(bodies, async (hash) => {
    const answer = await ask(`v1/meshes/${hash}/geometry`, { cache: "default" });
    if (!answer.ok) throw await refusal(answer, "the mesh");
    return readGlb(await answer.arrayBuffer());
  }, (error) => {
    if (error) byId("try-note").textContent = `no picture: ${error.message}`;
    view.bodies.setOpacity(0.5);
    draw();
  });
}

const placed = (slot) => ({ mesh: slot.mesh.hash, pose: slot.pose });

// What exact is asked for: the contact surface too, unless it may be a text of many megabytes.
const wanted = () => (slots.every((slot) => slot.mesh.triangles <= MOST_TRIANGLES) ? ["frame", "surface"] : ["frame"]);

// As the view takes it. Nested bodies have none.
function drawable(contact) {
  if (!contact?.surface) return contact;
  const { offsets, vertices, pressures } = contact.surface;
  return { ...contact, surface: { offsets, vertices: vertices.flat(), pressure: pressures } };
}

// One method's contact, or null: {contact, us}.
async function compute(method) {
  if (method !== "ebpi" && method !== "exact") {
    const answer = await send("POST", "v1/overlap", { a: placed(slots[0]), b: placed(slots[1]), method });
    return { contact: answer.contacts[0] ?? null, us: sum(answer.wall_us) };
  }
  const scene = await send("POST", "v1/scenes", { name: "try", method, ...(method === "ebpi" ? { tolerance_rel: TOLERANCE_REL } : {}) });
  try {
    for (const slot of slots) await send("POST", `v1/scenes/${scene.id}/bodies`, placed(slot));
    const answer = await send("POST", `v1/scenes/${scene.id}/step`, { want: method === "exact" ? wanted() : ["frame"] });
    return { contact: drawable(answer.contacts[0] ?? null), us: sum(answer.wall_us) };
  } finally {
    await send("DELETE", `v1/scenes/${scene.id}`);
  }
}

const sum = (times) => Object.values(times ?? {}).reduce((a, b) => a + b, 0);

function row(method, result) {
  const pick = button(method, () => { chosen = method; show(results); }, "plain");
  pick.ariaPressed = String(method === chosen);
  pick.dataset.key = method;
  if (result instanceof Error) return [pick, result.message, "", "", "", ""];
  const c = result?.contact;
  if (!result) return [pick, "computing", "", "", "", ""];
  if (!c) return [pick, "0", "–", "–", "no contact", micros(result.us)];
  return [pick, number(c.volume, 6), number(c.depth ?? NaN, 4), number(c.area ?? NaN, 4), c.normal ? triple(c.normal) : "–", micros(result.us)];
}

let results = {};
function show(found) {
  results = found;
  table(byId("try-results"), methods.map((method) => row(method, found[method])), [1, 2, 3, 5], "no method",
    (i) => (methods[i] === chosen ? "selected" : ""));
  contact = found[chosen]?.contact ?? null;
  draw();
  const texts = programs(slots, chosen, new URL(".", location.href.split("#")[0]).href);
  byId("try-code").replaceChildren(...Object.entries(texts).map(([name, text]) => {
    const box = make("details");
    box.open = byId(`code-${name}`)?.open ?? false;
    box.id = `code-${name}`;
    const code = make("pre", text);
    code.tabIndex = 0;
    box.append(make("summary", name), code, button("Copy", () => navigator.clipboard?.writeText(text)));
    return box;
  }));
}

async function solve() {
  const mine = ++round;
  const ready = slots.every((slot) => slot.mesh);
  byId("try-output").hidden = !ready;
  if (!ready) return;
  history.replaceState(null, "", `#try/${slots.map((slot) => `${slot.mesh.hash},${slot.values.join(",")}`).join(";")}`);
  byId("try-link").href = location.href;
  const found = {};
  for (const method of methods) {
    try {
      found[method] = await compute(method);
    } catch (error) {
      found[method] = error;
    }
    if (mine !== round) return; // something changed meanwhile
    show({ ...results, ...found });
  }
}

function changed(is_new_mesh) {
  if (is_new_mesh) {
    results = {};
    contact = null;
    showBodies();
  }
  draw();
  clearTimeout(timer);
  timer = setTimeout(solve, PAUSE_MS);
}

async function makeView() {
  const [{ View }, { Handles }] = await Promise.all([import("./view.js"), import("./handles.js")]);
  try {
    view = new View(byId("try-canvas"), { pick: () => {} });
    window.contactdTry = view; // for the console, and for tests
    handles = new Handles(view, (id, by) => {
      const slot = slots[id - 1];
      slot.values = slot.values.map((value, i) => value + (by[i] ?? 0));
      changed(false);
    });
  } catch {
    byId("try-canvas").hidden = true;
    byId("try-note").textContent = "This browser has no WebGL: there is no picture, but numbers are computed.";
  }
}

// text: of a link: two times "hash,x,y,z,a,b,c", between them a semicolon; or empty.
export async function openTry(text) {
  if (!slots) {
    slots = ["a", "b"].map((name) => new Slot(byId(`slot-${name}`), name, changed));
    await makeView();
    try {
      methods = (await get("v1/status")).methods;
      if (!methods.includes(chosen)) chosen = methods[0];
    } catch { /* the state says so */ }
  }
  const parts = (text ?? "").split(";");
  for (const [i, slot] of slots.entries()) {
    const [hash, ...values] = (parts[i] ?? "").split(",");
    if (!/^[0-9a-f]{8,32}$/.test(hash) || slot.mesh?.hash === hash) continue;
    slot.values = values.map(Number);
    await slot.use(hash);
  }
}
