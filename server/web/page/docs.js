// docs.js - the page /docs: the OpenAPI document, operation by operation, each of which can be tried.
import { ask, get, onUnauthenticated, setToken } from "./api.js";
import { byId, button, bytes, dataUrl, make } from "./dom.js";
import { later, resolve, schemaView, setDocument, typeOf } from "./schema.js";

const SHOWN = 20000; // characters of an answer
const LINE = 100; // characters of a line of JSON
const EVENTS = 2; // of a stream
const METHODS = ["get", "post", "patch", "delete"];

// JSON whose parts stand on one line where they fit.
function jsonText(value, indent = "") {
  const line = JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");
  if (line.length + indent.length <= LINE || typeof value !== "object") return line;
  const inner = `${indent} `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Array.isArray(value) ? value.map((item) => jsonText(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${jsonText(item, inner)}`);
  return `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${indent}${close}`;
}

const idOf = (operation, name) => `${operation.operationId}-${name}`;

function parameterRow(operation, parameter) {
  const row = make("div", undefined, "property");
  const label = make("label");
  const input = make("input");
  input.id = idOf(operation, parameter.name);
  label.htmlFor = input.id;
  label.append(make("code", parameter.name), make("span", ` in ${parameter.in}, ${typeOf(parameter.schema)}${parameter.required ? ", required" : ""}`, "note"));
  input.value = parameter.example ?? (parameter.in === "path" ? 1 : "");
  input.placeholder = parameter.schema.default ?? "";
  row.append(label, input);
  const text = parameter.description ?? resolve(parameter.schema).description;
  if (text) row.append(make("p", text, "words"));
  return row;
}

// An answer's example and its fields.
function answerView(content) {
  const view = make("div");
  if (content.example !== undefined) {
    const example = make("pre", typeof content.example === "string" ? content.example : jsonText(content.example));
    example.tabIndex = 0;
    view.append(make("p", "For example:", "note"), example);
  }
  view.append(schemaView(content.schema));
  return view;
}

// The request's body: a text where it is JSON, a file else.
function bodyInputs(operation, content) {
  const box = make("div");
  const types = Object.keys(content);
  const label = make("label", "Content type ");
  const select = make("select");
  select.id = idOf(operation, "type");
  select.append(...types.map((type) => make("option", type)));
  if (types.includes("application/json")) select.value = "application/json";
  label.append(select);
  const text = make("textarea");
  text.id = idOf(operation, "body");
  text.rows = 8;
  text.spellcheck = false;
  text.ariaLabel = "Body of the request";
  const { example } = content["application/json"] ?? {};
  text.value = example === undefined ? "" : jsonText(example);
  const file = make("input");
  file.type = "file";
  file.id = idOf(operation, "file");
  file.ariaLabel = "File that is sent";
  const choose = () => { text.hidden = select.value !== "application/json"; file.hidden = !text.hidden; };
  select.addEventListener("change", choose);
  choose();
  box.append(label, text, file, later("Fields of the body", () => schemaView(content[select.value].schema)));
  return box;
}

function parametersOf(path, operation) {
  return [...(path.parameters ?? []), ...(operation.parameters ?? [])].map(resolve);
}

function addressOf(template, operation, parameters) {
  const query = new URLSearchParams();
  let path = template.slice(1);
  for (const { name, in: where } of parameters) {
    const value = byId(idOf(operation, name)).value.trim();
    if (where === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (where === "query" && value) query.set(name, value);
  }
  return path + (query.size ? `?${query}` : "");
}

async function firstEvents(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.length < SHOWN && text.split("\n\n").length <= EVENTS) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
  }
  reader.cancel();
  return text;
}

async function showAnswer(answer, place) {
  const type = answer.headers.get("Content-Type") ?? "";
  if (type.startsWith("image/")) {
    const image = make("img");
    image.alt = "The answer, a picture";
    image.src = await dataUrl(await answer.blob());
    return place.append(image);
  }
  if (/octet-stream|gltf/.test(type)) return place.append(make("p", `${bytes((await answer.arrayBuffer()).byteLength)} of ${type}`));
  let text = type.startsWith("text/event-stream") ? await firstEvents(answer) : await answer.text();
  if (type.includes("json")) text = jsonText(JSON.parse(text));
  const shown = make("pre", text.length > SHOWN ? `${text.slice(0, SHOWN)}\n… ${text.length - SHOWN} characters more` : text || "(no body)");
  shown.tabIndex = 0;
  place.append(shown);
}

async function tryIt(template, method, operation, parameters, output) {
  const address = addressOf(template, operation, parameters);
  const type = byId(idOf(operation, "type"))?.value;
  const file = byId(idOf(operation, "file"));
  const body = type === undefined ? undefined : type === "application/json" ? byId(idOf(operation, "body")).value : file.files[0];
  if ((method === "delete" || operation.operationId === "drainServer") && !confirm(`${method.toUpperCase()} ${address}: do it?`)) return;
  output.replaceChildren(make("p", "asking", "note"));
  const begun = performance.now();
  try {
    const answer = await ask(address, { method: method.toUpperCase(), body, headers: type ? { "Content-Type": type } : {} });
    const took = `${Math.round(performance.now() - begun)} ms`;
    output.replaceChildren(make("p", `${answer.status} ${answer.statusText}, ${took}`, answer.ok ? "state good" : "state bad"));
    await showAnswer(answer, output);
  } catch (error) {
    output.replaceChildren(make("p", `no answer from the server (${error.message})`, "state bad"));
  }
}

function build(template, path, method, operation) {
  const box = make("div", undefined, "operation");
  if (operation.description) box.append(make("p", operation.description, "words"));
  const parameters = parametersOf(path, operation);
  if (parameters.length) box.append(make("h3", "Parameters"), ...parameters.map((p) => parameterRow(operation, p)));
  if (operation.requestBody) box.append(make("h3", "Body"), bodyInputs(operation, operation.requestBody.content));
  const output = make("div");
  output.role = "status";
  const act = button("Try it", () => tryIt(template, method, operation, parameters, output));
  act.ariaLabel = `Try ${method.toUpperCase()} ${template}`;
  box.append(act, output, make("h3", "Answers"));
  for (const [status, node] of Object.entries(operation.responses)) {
    const response = resolve(node);
    const [type, content] = Object.entries(response.content ?? {})[0] ?? [];
    const title = `${status} ${response.description ?? ""}${type ? `, ${type}` : ""}`;
    box.append(content ? later(title, () => answerView(content)) : make("p", title));
  }
  return box;
}

function show(document) {
  setDocument(document);
  byId("about").textContent = `${document.info.title} ${document.info.version}. ${document.info.description ?? ""}`;
  const groups = document.tags.map((tag) => {
    const section = make("section");
    section.ariaLabel = tag.name;
    section.append(make("h2", tag.name));
    if (tag.description) section.append(make("p", tag.description, "note"));
    for (const [template, path] of Object.entries(document.paths)) {
      for (const method of METHODS.filter((m) => path[m]?.tags[0] === tag.name)) {
        const operation = path[method];
        const box = later(`${method.toUpperCase()} ${template}`, () => build(template, path, method, operation));
        box.id = operation.operationId;
        box.className = "entry";
        box.firstChild.append(make("span", ` ${operation.summary}`, "note"));
        section.append(box);
      }
    }
    return section;
  });
  byId("operations").replaceChildren(...groups);
  const named = window.document.getElementById(location.hash.slice(1));
  if (named?.className === "entry") {
    named.open = true;
    named.scrollIntoView();
  }
}

function filter() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of document.querySelectorAll(".entry")) {
    const text = entry.firstChild.textContent.toLowerCase();
    entry.hidden = !words.every((word) => text.includes(word));
  }
  for (const section of document.querySelectorAll("#operations section")) section.hidden = !section.querySelector(".entry:not([hidden])");
}

onUnauthenticated(() => byId("token").focus());
byId("filter").addEventListener("input", filter);
byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value.trim());
  byId("token").value = "";
});
get("openapi.json").then(show, (error) => { byId("about").textContent = error.message; });
