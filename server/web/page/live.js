// live.js - the panel of one scene: its events, the view, the lists and the controls between them.
import { ask, get, refusal } from "./api.js";
import { byId, count, dataUrl, download, number, triple } from "./dom.js";
import { exportBodies } from "./export.js";
import { follow } from "./feed.js";
import { readGlb } from "./glb.js";
import { History } from "./history.js";
import { listContacts } from "./listing.js";
import { Lists } from "./lists.js";

const QUERY = "?rate=18&surface=true&points=true"; // more costs the server more than they are worth
const WORDS_MS = 200; // words that change faster cannot be read, and cost a browser without a GPU a fifth of a picture
const PICTURE_MS = 3000; // between two pictures of the server's

const history = new History();
let scene = null; // its id
let bodies = []; // of the event `scene`
let stop = () => {};
let view = null; // null: not made yet, or there is no WebGL
let lists = null;
let shown = null; // the frame that is shown
let paused = false;
let fitted = false;
let timer = 0;
let soon = 0; // a request of showSoon
let words = 0; // a timer of tellSoon

function state(kind, text) {
  byId("live-state").textContent = text;
  byId("live-state").className = `state ${kind === "live" ? "good" : kind === "waiting" ? "" : "bad"}`;
  byId("live").dataset.state = kind;
}

function show(frame) {
  shown = frame;
  if (view) {
    view.setFrame(frame);
    if (!fitted && !view.bodies.box().isEmpty()) {
      fitted = true;
      view.fit();
    }
  }
  lists.setFrame(frame, bodies, view?.bodies.hidden ?? new Set());
}

// Of the frame that is shown, in words.
function tell() {
  const frame = shown;
  const ago = (history.frames.at(-1).at - frame.at) / 1000;
  byId("frame").textContent = `step ${count(frame.step)}, ${count(frame.total)} contacts${ago > 0.05 ? `, ${ago.toFixed(1)} s ago` : ""}`;
  const scrub = byId("scrub");
  scrub.max = history.frames.length - 1;
  scrub.value = history.frames.indexOf(frame);
  scrub.ariaValueText = `${ago.toFixed(1)} seconds ago`;
  legend();
  describe();
}

function tellSoon() {
  words ||= setTimeout(() => {
    words = 0;
    if (shown) tell();
  }, WORDS_MS);
}

function showNow(frame) {
  show(frame);
  tell();
}

// Of frames that come faster than the screen shows, the newest.
function showSoon() {
  soon ||= requestAnimationFrame(() => {
    soon = 0;
    if (paused || !history.frames.length) return;
    show(history.frames.at(-1));
    tellSoon();
  });
}

// Of those that are drawn.
function separationText() {
  const pairs = view.contacts.wanted.separation ? shown.separations : [];
  if (!pairs.length) return "";
  const nearest = pairs.reduce((a, b) => (b.distance < a.distance ? b : a));
  const n = shown.n_separations;
  return `violet lines: ${count(n)} ${n === 1 ? "pair" : "pairs"} within the margin${n > pairs.length ? `, of which ${count(pairs.length)} are drawn` : ""}, `
    + `the nearest ${number(nearest.distance, 3)} m (bodies ${nearest.bodies.join(" and ")})`;
}

function legend() {
  const largest = view?.contacts.largest;
  if (!largest) return;
  byId("legend").textContent = [
    largest.pressure ? `yellow: ${number(largest.pressure, 3)} Pa` : "", largest.force ? `longest red arrow: ${number(largest.force, 3)} N` : "",
    largest.torque ? `longest blue arrow: ${number(largest.torque, 3)} N m` : "", separationText(),
  ].filter(Boolean).join("; ");
}

// What is picked, in words.
function describe() {
  const { body, contact } = lists.selection;
  const facts = body === null ? null : bodies.find((b) => b.id === body);
  const c = contact === null ? null : shown?.contacts[contact];
  let text = "Nothing is picked: click a body or the middle of a contact, or a row below.";
  if (facts) {
    const middle = view?.bodies.boxOf(body)?.getCenter(view.controls.target.clone()).toArray();
    text = `Body ${body}${facts.name ? ` ${facts.name}` : ""}: ${facts.kind.replace("_", "-")}, ${count(facts.triangles ?? 0)} triangles`
      + (middle ? `, middle at ${triple(middle)} m` : "") + (facts.mesh ? `, mesh ${facts.mesh.slice(0, 12)}` : "");
  } else if (c) {
    text = `Contact of bodies ${c.bodies.join(" and ")}: volume ${number(c.volume ?? NaN)} m³`
      + (c.depth === undefined ? "" : `, depth ${number(c.depth)} m`) + (c.normal ? `, normal ${triple(c.normal)}` : "")
      + (c.center ? `, centre ${triple(c.center)} m` : "");
  }
  byId("picked").textContent = text;
  byId("hide").disabled = byId("follow").disabled = facts === null || facts === undefined;
}

function pick(selection) {
  const whole = { body: null, contact: null, ...selection };
  lists.select(whole);
  view?.select(whole);
  if (whole.body === null) view && (view.follows = byId("follow").checked = false);
  describe();
}

function setScene(value) {
  bodies = value.bodies;
  history.keep(new Set(bodies.map((b) => b.id)));
  view?.bodies.setBodies(bodies, async (hash) => {
    const answer = await ask(`v1/meshes/${hash}/geometry`, { cache: "default" });
    if (!answer.ok) throw await refusal(answer, "the mesh");
    return readGlb(await answer.arrayBuffer());
  }, (error) => {
    if (error) byId("view-note").textContent = `A mesh could not be read: ${error.message}`;
    view.bodies.setOpacity(byId("through").checked ? 0.35 : 1);
    if (shown) showNow(shown);
  });
  const triangles = bodies.reduce((sum, b) => sum + (b.triangles ?? 0), 0);
  byId("live-facts").textContent = `${value.method ?? ""}, ${count(bodies.length)} bodies, ${count(triangles)} triangles`;
  byId("live-title").textContent = value.name ? `Scene ${scene} ${value.name}` : `Scene ${scene}`;
  document.dispatchEvent(new CustomEvent("scene", { detail: value }));
}

// The server's picture, where this browser cannot draw one, or this server tells no frames.
async function drawPicture() {
  const picture = byId("picture");
  try {
    const file = await get(`v1/scenes/${scene}/snapshot.png?width=800&height=600`, "blob");
    picture.src = await dataUrl(file);
    picture.alt = `Scene ${scene}: its bodies, and what they have in common`;
    picture.hidden = false;
  } catch (error) {
    byId("view-note").textContent = error.message;
  }
}

function usePictures(why) {
  byId("canvas").hidden = byId("tools").hidden = true;
  byId("view-note").textContent = `${why}, so this is a picture that the server draws every ${PICTURE_MS / 1000} s. `
    + "Red, green and blue: ends of rays along x, y and z.";
  clearInterval(timer);
  drawPicture();
  timer = setInterval(() => { if (!document.hidden && !paused) drawPicture(); }, PICTURE_MS);
}

async function makeView() {
  if (view) return;
  const { View } = await import("./view.js");
  try {
    view = new View(byId("canvas"), { pick });
    window.contactdView = view; // for the console, and for tests
  } catch {
    usePictures("This browser has no WebGL");
  }
}

export async function openScene(id) {
  stop();
  clearInterval(timer);
  scene = id;
  history.clear();
  Object.assign(byId("picture"), { hidden: true });
  byId("canvas").hidden = byId("tools").hidden = false;
  byId("view-note").textContent = byId("legend").textContent = byId("frame").textContent = byId("live-facts").textContent = "";
  byId("live-title").textContent = `Scene ${id}`;
  byId("all").open = false;
  [bodies, shown, fitted] = [[], null, false];
  lists ??= new Lists(pick);
  lists.setFrame(null, [], new Set());
  setPaused(false);
  state("waiting", "connecting");
  view?.bodies.clear();
  view?.bodies.hidden.clear();
  pick({});
  await makeView();
  if (!view) usePictures("This browser has no WebGL");
  if (scene !== id) return;
  stop = follow(id, QUERY, {
    scene: setScene,
    frame: (event) => {
      const frame = history.add(event, performance.now());
      if (!shown) showNow(frame);
      else if (!paused) showSoon();
    },
    state: (kind, text) => {
      state(kind, text);
      if (kind === "absent" && view) usePictures("This server has no live view");
    },
  });
}

export function closeScene() {
  stop();
  clearInterval(timer);
  scene = null;
}

function setPaused(value) {
  paused = value;
  history.stand(value);
  byId("hold").ariaPressed = String(paused);
  byId("hold").textContent = paused ? "Go on" : "Pause";
  if (!paused && history.frames.length) show(history.frames.at(-1));
  if (shown) tell();
}

// A contact of the server's list: in the view if that has it, else by its first body.
function pickListed(contact) {
  const same = (c) => c.bodies.join() === contact.bodies.join() && (c.index ?? 0) === (contact.index ?? 0);
  const at = shown?.contacts.findIndex(same) ?? -1;
  pick(at >= 0 ? { contact: at } : { body: contact.bodies[0] });
}

function listen() {
  listContacts(() => scene, pickListed);
  byId("hold").addEventListener("click", () => setPaused(!paused));
  byId("scrub").addEventListener("input", () => {
    const frame = history.frames[Number(byId("scrub").value)];
    if (!frame) return;
    if (!paused) setPaused(true);
    showNow(frame);
  });
  byId("fit").addEventListener("click", () => view?.fit(lists.selection.body));
  byId("follow").addEventListener("change", () => { if (view) view.follows = byId("follow").checked; });
  byId("hide").addEventListener("click", () => {
    view.bodies.hidden.add(lists.selection.body);
    pick({});
    if (shown) showNow(shown);
  });
  byId("show-all").addEventListener("click", () => {
    view.bodies.hidden.clear();
    if (shown) showNow(shown);
  });
  byId("through").addEventListener("change", () => {
    view.bodies.setOpacity(byId("through").checked ? 0.35 : 1);
    view.touch();
  });
  for (const kind of ["surface", "normal", "force", "points", "separation"]) {
    byId(`show-${kind}`).addEventListener("change", () => {
      view.contacts.wanted[kind] = byId(`show-${kind}`).checked;
      if (shown) showNow(shown);
    });
  }
  byId("export").addEventListener("click", () => {
    const file = exportBodies(view.bodies);
    if (file) download(file, `contactd-scene-${scene}.glb`);
    else byId("view-note").textContent = "There is no body that could be saved: half-spaces have no end, and the others are hidden.";
  });
  byId("save").addEventListener("click", async () => download(await view.save(), `contactd-scene-${scene}.png`));
}
listen();
