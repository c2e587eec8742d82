// settings.js - the settings in force in a scene, as a form made from the OpenAPI document; sends what was changed.
import { ask, get, refusal } from "./api.js";
import { byId, make } from "./dom.js";

let schema = null; // of the settings, by name
let scene = null; // its id
let known = null; // the scene as it was last read
let etag = "";

const asText = (value) => (value === null ? "" : Array.isArray(value) ? value.join(", ") : String(value));

// What a text means for a property: a number, three numbers, or a word.
function asValue(text, property) {
  if (property.enum) return text;
  const numbers = text.split(/[\s,×x]+/).filter(Boolean).map(Number);
  if (!numbers.length || numbers.some((n) => !Number.isFinite(n))) throw new Error(`"${text}" is no number`);
  return numbers.length === 1 ? numbers[0] : numbers;
}

function inputFor(name, property, value) {
  if (property.enum) {
    const select = make("select");
    select.append(...property.enum.map((word) => make("option", word)));
    select.value = value;
    return select;
  }
  const input = make("input");
  if (property.type === "boolean") {
    input.type = "checkbox";
    input.checked = value;
  } else {
    input.value = asText(value);
    input.inputMode = "decimal";
    input.placeholder = value === null ? "not named" : "";
    input.autocomplete = "off";
  }
  return input;
}

function show() {
  const rows = Object.entries(schema).filter(([name]) => name in known).map(([name, property]) => {
    const row = make("div");
    const label = make("label", name.replaceAll("_", " "));
    const input = inputFor(name, property, known[name]);
    input.id = `setting-${name}`;
    input.name = name;
    label.htmlFor = input.id;
    const note = make("p", property.description, "note");
    note.id = `${input.id}-note`;
    input.setAttribute("aria-describedby", note.id);
    row.append(label, input, note);
    return row;
  });
  byId("settings-fields").replaceChildren(...rows);
  byId("settings-revision").textContent = `Revision ${known.revision}; steps run ${known.running_method}.`;
}

function changes() {
  const changed = {};
  for (const [name, property] of Object.entries(schema)) {
    const input = byId(`setting-${name}`);
    if (!input) continue;
    if (input.type === "checkbox") {
      if (input.checked !== known[name]) changed[name] = input.checked;
    } else if (input.value.trim() !== asText(known[name])) {
      try {
        changed[name] = asValue(input.value.trim(), property);
      } catch (error) {
        throw new Error(`${name}: ${error.message}`);
      }
    }
  }
  return changed;
}

function say(text, is_bad = false) {
  byId("settings-note").textContent = text;
  byId("settings-note").className = is_bad ? "note bad" : "note";
}

async function read(answer) {
  if (!answer.ok) throw await refusal(answer, "the settings");
  etag = answer.headers.get("ETag") ?? "";
  known = await answer.json();
  show();
}

export async function showSettings(id) {
  scene = id;
  say("");
  try {
    schema ??= (await get("openapi.json")).components.schemas.SceneSettings.properties;
    await read(await ask(`v1/scenes/${id}`));
  } catch (error) {
    say(error.message, true);
  }
}

async function apply(event) {
  event.preventDefault();
  try {
    const changed = changes();
    const names = Object.keys(changed);
    if (!names.length) return say("nothing was changed");
    await read(await ask(`v1/scenes/${scene}`, {
      method: "PATCH", body: JSON.stringify(changed),
      headers: { "Content-Type": "application/json", ...(etag ? { "If-Match": etag } : {}) },
    }));
    say(`changed: ${names.join(", ")}`);
  } catch (error) {
    say(error.message, true);
    if (error.problem?.field) byId(`setting-${error.problem.field.split(/[.[]/)[0]}`)?.focus();
  }
}

byId("settings").addEventListener("submit", apply);
byId("settings-again").addEventListener("click", () => showSettings(scene));
// Somebody else changed them: they are read again, unless something is being changed here.
document.addEventListener("scene", ({ detail }) => {
  if (!known || detail.scene !== scene || (detail.settings?.revision ?? known.revision) === known.revision) return;
  let is_touched = true;
  try { is_touched = Object.keys(changes()).length > 0; } catch { /* a text that is no number yet */ }
  if (!is_touched) showSettings(scene);
});
