// graphs.js - curves of the last minutes, out of the server's own memory of them.
import { get } from "./api.js";
import { byId, bytes, count, make, number } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [560, 190, 62, 22, 8]; // of a drawing, in its own units
const MOST_CURVES = 8;
const COLORS = 8; // of the style sheet
const milliseconds = (v) => `${number(v, 3)} ms`;
const plain = (v) => (Math.abs(v) >= 1000 ? count(Math.round(v)) : number(v, 3));

// What is drawn: a title, how values are written, and the curves by name.
function graphsOf(series) {
  const some = (entries) => Object.fromEntries(Object.entries(entries).filter(([, values]) => values));
  return [
    { title: "Steps per second", text: plain, curves: some({ "steps/s": series.steps_per_s }) },
    { title: "Latency of a step", text: milliseconds, curves: some({ p50: series.latency_p50_ms, p99: series.latency_p99_ms }) },
    { title: "Time of a step by phase", text: milliseconds, curves: series.phases_ms ?? {} },
    { title: "Queue and running steps", text: plain, curves: some({ queue: series.queue, running: series.running_steps }) },
    { title: "Memory", text: bytes, curves: some({ memory: series.memory_bytes }) },
    { title: "Steps per second by principal", text: plain, curves: series.principals ?? {} },
  ].filter(({ curves }) => Object.keys(curves).length);
}

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// 1, 2 or 5 times a power of ten, of bytes a power of two, at least value.
function roundUp(value, text) {
  if (text === bytes) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * (1 - 1e-9));
}

const known = (values) => values.filter((v) => v !== null && Number.isFinite(v));

// Breaks where nothing was measured.
function path(values, x, y) {
  let pen_is_down = false;
  return values.map((value, i) => {
    if (value === null || !Number.isFinite(value)) {
      pen_is_down = false;
      return "";
    }
    const word = `${pen_is_down ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    pen_is_down = true;
    return word;
  }).join("");
}

function draw({ title, text, curves }, time) {
  const figure = make("figure");
  const largest = ([, values]) => Math.max(0, ...known(values));
  const colors = new Map(Object.keys(curves).map((name, i) => [name, `c${i % COLORS}`]));
  const entries = Object.entries(curves).sort((a, b) => largest(b) - largest(a)).slice(0, MOST_CURVES);
  const top = roundUp(Math.max(1e-9, ...entries.flatMap(([, values]) => known(values))), text);
  const end = time.at(-1) ?? 0;
  const span = Math.max(1, end - (time[0] ?? 0));
  const x = (i) => LEFT + (WIDTH - LEFT - 4) * (1 - (end - time[i]) / span);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const summary = entries.map(([name, values]) => {
    const last = known(values).at(-1);
    return `${name}: ${last === undefined ? "nothing" : `${text(last)} now, at most ${text(Math.max(...known(values)))}`}`;
  });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${summary.join("; ")}` });
  for (const part of [0, 0.5, 1]) {
    drawing.append(svg("line", { class: "rule", x1: LEFT, x2: WIDTH - 4, y1: y(part * top), y2: y(part * top) }));
    drawing.append(svg("text", { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, text(part * top)));
  }
  drawing.append(svg("text", { x: LEFT, y: HEIGHT - 5 }, span >= 120 ? `${Math.round(span / 60)} min ago` : `${Math.round(span)} s ago`));
  drawing.append(svg("text", { x: WIDTH - 4, y: HEIGHT - 5, "text-anchor": "end" }, "now"));
  entries.forEach(([name, values]) => drawing.append(svg("path", { class: `curve ${colors.get(name)}`, d: path(values, x, y) })));
  const legend = make("p", undefined, "legend");
  legend.append(...summary.map((words, i) => make("span", words, `key ${colors.get(entries[i][0])}`)));
  figure.append(make("figcaption", title), drawing, legend);
  return figure;
}

export async function refreshGraphs() {
  const note = byId("graphs-note");
  try {
    const history = await get(`v1/history?seconds=${byId("graphs-seconds").value}`);
    const graphs = graphsOf(history.series);
    byId("graphs-list").replaceChildren(...(history.time.length > 1 ? graphs.map((graph) => draw(graph, history.time)) : []));
    note.textContent = history.time.length > 1 ? "" : "The server has just started: curves appear within seconds.";
  } catch (error) {
    note.textContent = error.problem?.title === "no such resource" ? "This server keeps no history." : error.message;
  }
}

byId("graphs-seconds").addEventListener("change", refreshGraphs);
