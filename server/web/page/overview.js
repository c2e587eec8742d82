// overview.js - what the server does, over all scenes: status, scenes, phases, meshes. Reads only.
import { get } from "./api.js";
import { byId, bytes, cards, count, make, micros, number, rounded, table, time } from "./dom.js";

// The metrics' names are those of rays; these fit all methods, as the graphs' do.
const PHASES = { upload: "updates", broadphase: "pairs", raster: "crossing", span: "summing", contact: "contacts" };
const ROWS = 100; // of a table: as many are asked for
let before = null; // the last answers, for rates
let after = 0; // the scenes that are listed follow this one
let wanted = ""; // is in their names, or begins their numbers

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
  table(byId("phases"), found.map(([name, phase]) => {
    const share = total ? phase.sum / total : 0;
    const cell = make("span");
    const bar = make("progress");
    bar.max = 1;
    bar.value = share;
    bar.ariaLabel = `${PHASES[name] ?? name}'s share of the time`;
    cell.append(bar, ` ${Math.round(100 * share)} %`);
    return [PHASES[name] ?? name, micros(quantile(phase, 0.5)), micros(quantile(phase, 0.9)), micros(quantile(phase, 0.99)), cell];
  }), [1, 2, 3], "no phases");
}

function showScenes(page, total, seconds) {
  table(byId("scenes"), page.scenes.map((s) => {
    const link = make("a", s.name ? `${s.id} ${s.name}` : String(s.id));
    link.href = `#scene/${s.id}`;
    link.dataset.key = s.id;
    const old = before?.scenes.get(s.id);
    const rate = old !== undefined && seconds > 0 ? Math.max(0, (s.steps - old) / seconds) : 0;
    const sampling = s.pixel_size > 0 ? `${number(s.pixel_size)} m` : s.resolution?.join("×");
    const method = sampling ? `${s.running_method} ${sampling}` : s.running_method;
    return [link, s.owner || "–", method, count(s.bodies), count(s.contacts), count(s.steps), rounded(rate), bytes(s.bytes)];
  }), [3, 4, 5, 6, 7], wanted ? "no scene has this in its name, or begins its number with it" : "no scenes are open");
  byId("scenes-find-bar").hidden = total <= ROWS;
  byId("scenes-back").hidden = byId("scenes-on").hidden = !page.next && !after;
  byId("scenes-back").disabled = !after;
  byId("scenes-on").disabled = !page.next;
  byId("scenes-on").value = page.next ?? "";
  byId("scenes-note").textContent = page.next || after || wanted ? `${count(page.scenes.length)} of ${count(total)} are listed` : "";
}

function showMeshes(page, total) {
  table(byId("meshes"), page.meshes.map((m) => [
    m.name ? `${m.id} ${m.name}` : String(m.id), m.hash.slice(0, 12), count(m.vertices), count(m.triangles),
    `${number(m.volume)} m³`, bytes(m.bytes), count(m.bodies),
  ]), [2, 3, 4, 5, 6], "no meshes are registered");
  byId("meshes-note").textContent = total > page.meshes.length ? `and ${count(total - page.meshes.length)} more` : "";
}

// Of the scene that is looked at; null: it was closed.
export async function showDetail(scene) {
  const stats = await get(`v1/scenes/${scene}/stats`);
  cards(byId("detail-list"), [
    ["Volume", `${number(stats.last.volume)} m³`], ["Contacts", count(stats.last.contacts)],
    ["Pairs", count(stats.last.pairs)], ...(stats.last.rays ? [["Rays", count(stats.last.rays)]] : []),
    [stats.last.rays ? "Fragments" : "Crossings or cubes", count(stats.last.fragments)],
    ["Failed steps", count(stats.failed)], ["Pending", count(stats.pending)],
    ["Latency p50", micros(stats.latency_us.p50 ?? NaN)], ["Latency p99", micros(stats.latency_us.p99 ?? NaN)],
    ...Object.entries(stats.last.timings_us).map(([name, us]) => [`Time: ${PHASES[name] ?? name}`, `${micros(us)} (mean ${micros(stats.mean.timings_us[name])})`]),
  ]);
}

export async function refreshOverview() {
  const query = new URLSearchParams({ limit: ROWS, ...(after ? { after } : {}), ...(wanted ? { find: wanted } : {}) });
  try {
    const [status, scenes, meshes, metrics] = await Promise.all([
      get("v1/status"), get(`v1/scenes?${query}`), get(`v1/meshes?limit=${ROWS}`),
      get("metrics", "text"),
    ]);
    const now = performance.now();
    const seconds = before ? (now - before.at) / 1000 : 0;
    showStatus(status, seconds);
    showPhases(metrics);
    showScenes(scenes, status.scenes, seconds);
    showMeshes(meshes, status.meshes);
    before = { at: now, steps: status.steps, scenes: new Map(scenes.scenes.map((s) => [s.id, s.steps])) };
  } catch (error) {
    byId("state").textContent = error.status === 401 ? "the server asks for a token"
      : `no answer from the server (${error.message})`;
    byId("state").className = "state bad";
    before = null;
  }
}

export function findScenes(text) {
  wanted = text;
  return turnPage(0);
}

export function turnPage(first) {
  after = first;
  return refreshOverview();
}
