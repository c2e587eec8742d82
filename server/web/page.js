// page.js - shows what the control API says, every two seconds while someone looks. Reads only.
"use strict";

const PERIOD_MS = 2000;
const ROWS = 100; // of a table; the rest is counted
const byId = (id) => document.getElementById(id);
let selected = null;
let pictured = null; // the scene whose picture is shown
let before = null; // the last answers, for rates

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

function micros(us) {
  if (!Number.isFinite(us)) return us > 0 ? "beyond" : "–";
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return `${us.toPrecision(3)} µs`;
}

const count = (n) => n.toLocaleString("en");
const number = (n) => (Math.abs(n) >= 1e7 ? n.toExponential(4) : Number(n.toPrecision(5)).toString());
const rounded = (n) => count(Number(n.toPrecision(3))); // a rate

function time(s) {
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s)} s`;
}

function cards(list, pairs) {
  list.replaceChildren(...pairs.map(([name, value]) => {
    const card = make("div");
    card.append(make("dt", name), make("dd", value));
    return card;
  }));
}

// rows: arrays of cells, the first of which names the row; a cell is a text or an element
function table(id, rows, numeric, none) {
  const body = byId(id);
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  body.replaceChildren(...rows.slice(0, ROWS).map((cells) => {
    const row = make("tr");
    cells.forEach((cell, i) => {
      const box = make(i ? "td" : "th", undefined, numeric.includes(i) ? "n" : "");
      if (!i) box.scope = "row";
      box.append(cell);
      row.append(box);
    });
    return row;
  }));
  if (!rows.length) {
    const empty = make("td", none, "empty");
    empty.colSpan = body.parentElement.rows[0].cells.length;
    const row = make("tr");
    row.append(empty);
    body.append(row);
  }
  if (focused) body.querySelector(`[data-key="${focused}"]`)?.focus();
  const note = byId(`${id}-note`);
  if (note) note.textContent = rows.length > ROWS ? `and ${count(rows.length - ROWS)} more` : "";
}

function device(d) {
  const memory = d.memory_budget_bytes ? `, ${bytes(d.memory_used_bytes)} of ${bytes(d.memory_budget_bytes)}` : "";
  const lost = d.lost ? `, lost: ${d.lost_reason}` : "";
  return [`Device ${d.index}`, `${d.device}, ${count(d.scenes)} scenes${memory}${lost}`];
}

function showStatus(s, seconds) {
  const state = byId("state");
  const text = s.draining ? "shutting down" : s.ready ? "ready" : `not ready: ${s.ready_reason}`;
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${s.ready && !s.draining ? "good" : "bad"}`;
  const rate = before && seconds > 0 ? (s.steps - before.steps) / seconds : 0;
  cards(byId("status"), [
    ["Server", s.server], ["Backend", [s.backend, s.rasterizer, s.simd].filter(Boolean).join(", ")],
    ...s.devices.map(device), ["Threads", count(s.threads)],
    ["Steps/s", rounded(Math.max(0, rate))], ["Steps", count(s.steps)], ["Contacts", count(s.contacts)],
    ["Clients", count(s.sessions)], ["Queue", `${count(s.queue_depth)} of ${count(s.queue_capacity)}`],
    ["Small, large steps", `${count(s.lanes.small.steps)}, ${count(s.lanes.large.steps)}`],
    ["Scenes, bodies", `${count(s.scenes)}, ${count(s.bodies)}`], ["Memory of scenes", bytes(s.scene_bytes)],
    ["Memory of meshes", `${bytes(s.mesh_bytes)} of ${bytes(s.mesh_bytes_limit)}`],
    ["Scratch", bytes(s.scratch_bytes)], ["Up", time(s.uptime_s)],
  ]);
}

// "contactd_phase_wall_seconds_bucket{phase="raster",le="0.001"} 17" -> phase -> {buckets, sum, count}
function phases(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = /^contactd_phase_wall_seconds_(bucket|sum|count)\{([^}]*)\} (\S+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...match[2].matchAll(/(\w+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
    if (!found.has(labels.phase)) found.set(labels.phase, { buckets: [], sum: 0, count: 0 });
    const phase = found.get(labels.phase);
    if (match[1] === "bucket") phase.buckets.push([labels.le === "+Inf" ? Infinity : Number(labels.le), Number(match[3])]);
    else phase[match[1]] = Number(match[3]);
  }
  return found;
}

function quantile(phase, q) {
  const bucket = phase.count ? phase.buckets.find(([, n]) => n >= q * phase.count) : null;
  return bucket ? bucket[0] * 1e6 : NaN;
}

function showPhases(text) {
  const found = [...phases(text)];
  const total = found.reduce((sum, [, phase]) => sum + phase.sum, 0);
  table("phases", found.map(([name, phase]) => {
    const share = total ? phase.sum / total : 0;
    const cell = make("span");
    const bar = make("progress");
    bar.max = 1;
    bar.value = share;
    bar.ariaLabel = `${name}'s share of the time`;
    cell.append(bar, ` ${Math.round(100 * share)} %`);
    return [name, micros(quantile(phase, 0.5)), micros(quantile(phase, 0.9)), micros(quantile(phase, 0.99)), cell];
  }), [1, 2, 3], "no phases");
}

function showScenes(scenes, seconds) {
  table("scenes", scenes.map((s) => {
    const pick = make("button", s.name ? `${s.id} ${s.name}` : String(s.id));
    pick.dataset.key = s.id;
    pick.ariaPressed = String(selected === s.id);
    pick.addEventListener("click", () => { selected = selected === s.id ? null : s.id; refresh(); });
    const old = before?.scenes.get(s.id);
    const rate = old !== undefined && seconds > 0 ? Math.max(0, (s.steps - old) / seconds) : 0;
    const sampling = s.pixel_size > 0 ? `${number(s.pixel_size)} m` : s.resolution?.join("×");
    const method = sampling ? `${s.running_method} ${sampling}` : s.running_method;
    return [pick, s.owner || "–", method, count(s.bodies), count(s.contacts), count(s.steps), rounded(rate), bytes(s.bytes)];
  }), [3, 4, 5, 6, 7], "no scenes are open");
}

function showDetail(stats) {
  byId("detail").hidden = !stats;
  if (!stats) return;
  if (pictured !== null && pictured !== stats.scene) {
    byId("picture").hidden = true;
    byId("picture-note").textContent = "";
    pictured = null;
  }
  byId("detail-title").textContent = `Last step of scene ${stats.scene}`;
  cards(byId("detail-list"), [
    ["Volume", `${number(stats.last.volume)} m³`], ["Contacts", count(stats.last.contacts)],
    ["Pairs", count(stats.last.pairs)], ["Rays", count(stats.last.rays)], ["Fragments", count(stats.last.fragments)],
    ["Failed steps", count(stats.failed)], ["Pending", count(stats.pending)],
    ["Latency p50", micros(stats.latency_us.p50 ?? NaN)], ["Latency p99", micros(stats.latency_us.p99 ?? NaN)],
    ...Object.entries(stats.last.timings_us).map(([name, us]) => [`Time: ${name}`, `${micros(us)} (mean ${micros(stats.mean.timings_us[name])})`]),
  ]);
}

// Only when asked for: drawing takes the server a while. The answer is turned into a data URL, as no cache may keep it.
async function drawPicture() {
  const scene = selected;
  byId("draw").disabled = true;
  byId("picture-note").textContent = "drawing";
  let note = "Red, green and blue: ends of rays along x, y and z.";
  try {
    const answer = await ask(`v1/scenes/${scene}/snapshot.png?width=800&height=600`);
    if (!answer.ok) throw new Error((await answer.json()).detail);
    const file = await answer.blob();
    const url = await new Promise((resolve) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => resolve(reader.result));
      reader.readAsDataURL(file);
    });
    if (scene === selected) {
      byId("picture").src = url;
      byId("picture").alt = `Scene ${scene}: its bodies, and what they have in common`;
      byId("picture").hidden = false;
      pictured = scene;
    }
  } catch (error) {
    note = error.message;
  } finally {
    byId("draw").disabled = false;
    byId("picture-note").textContent = scene === selected ? note : "";
  }
}

function showMeshes(meshes) {
  table("meshes", meshes.map((m) => [
    m.name ? `${m.id} ${m.name}` : String(m.id), m.hash.slice(0, 12), count(m.vertices), count(m.triangles),
    `${number(m.volume)} m³`, bytes(m.bytes), count(m.bodies),
  ]), [2, 3, 4, 5, 6], "no meshes are registered");
}

// Where the server asks for a token, it is kept for this tab alone.
async function ask(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    byId("login").hidden = false;
  }
  return answer;
}

function login(event) {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value.trim());
  byId("token").value = "";
  byId("login").hidden = true;
  refresh();
}

async function get(path, kind = "json") {
  const answer = await ask(path);
  if (!answer.ok) throw Object.assign(new Error(`${path}: ${answer.status}`), { status: answer.status });
  return answer[kind]();
}

let running = false;
async function refresh() {
  if (running || !byId("login").hidden) return;
  running = true;
  try {
    const [status, scenes, meshes, metrics] = await Promise.all([
      get("v1/status"), get("v1/scenes"), get("v1/meshes"), get("metrics", "text"),
    ]);
    const now = performance.now();
    const seconds = before ? (now - before.at) / 1000 : 0;
    showStatus(status, seconds);
    showPhases(metrics);
    showScenes(scenes.scenes, seconds);
    showMeshes(meshes.meshes);
    let stats = null;
    if (selected !== null) {
      try {
        stats = await get(`v1/scenes/${selected}/stats`);
      } catch (error) {
        if (error.status !== 404) throw error;
        selected = null; // it was closed
      }
    }
    showDetail(stats);
    before = { at: now, steps: status.steps, scenes: new Map(scenes.scenes.map((s) => [s.id, s.steps])) };
  } catch (error) {
    byId("state").textContent = error.status === 401 ? "the server asks for a token"
      : `no answer from the server (${error.message})`;
    byId("state").className = "state bad";
    before = null;
  } finally {
    running = false;
  }
}

byId("draw").addEventListener("click", drawPicture);
byId("login").addEventListener("submit", login);
setInterval(() => { if (!document.hidden && !byId("pause").checked) refresh(); }, PERIOD_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
