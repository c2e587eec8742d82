// schema.js - JSON schemas of the OpenAPI document as elements; what hangs below is made when it is opened.
import { make } from "./dom.js";

let root = null;
export function setDocument(document) { root = document; }

export function resolve(node) {
  while (node?.$ref) node = node.$ref.slice(2).split("/").reduce((at, key) => at[key], root);
  return node;
}

// In a few words: "integer, 1 to 4096".
export function typeOf(node) {
  const schema = resolve(node);
  if (schema.oneOf && !schema.type) return schema.oneOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  const name = [schema.type ?? "any"].flat().join(" or ");
  if (schema.items) {
    const length = schema.minItems !== undefined && schema.minItems === schema.maxItems ? `${schema.minItems} of ` : "";
    return `array of ${length}${typeOf(schema.items)}`;
  }
  const [low, high] = [schema.minimum ?? schema.exclusiveMinimum, schema.maximum];
  const range = low !== undefined && high !== undefined ? `, ${low} to ${high}` : low !== undefined ? `, from ${low}` : high !== undefined ? `, to ${high}` : "";
  return name + range;
}

// The object schema that is at the end of arrays and choices, or null.
function objectIn(node) {
  const schema = resolve(node);
  if (schema.properties) return schema;
  if (schema.items) return objectIn(schema.items);
  for (const choice of schema.oneOf ?? []) {
    const found = objectIn(choice);
    if (found) return found;
  }
  return null;
}

function property(name, node, is_required) {
  const schema = resolve(node);
  const item = make("div", undefined, "property");
  const head = make("p");
  head.append(make("code", name), make("span", ` ${typeOf(node)}${is_required ? ", required" : ""}`, "note"));
  item.append(head);
  const text = schema.description ?? resolve(schema.items)?.description;
  if (text) item.append(make("p", text, "words"));
  const inner = objectIn(node);
  if (inner) item.append(later(`Fields of ${name}`, () => fields(inner)));
  return item;
}

function fields(schema) {
  const list = make("div", undefined, "properties");
  for (const [name, node] of Object.entries(schema.properties)) list.append(property(name, node, schema.required?.includes(name)));
  return list;
}

// A part that is closed, and made once it is opened.
export function later(title, build) {
  const box = make("details");
  box.append(make("summary", title));
  box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) box.append(build()); });
  return box;
}

export function schemaView(node) {
  const schema = resolve(node);
  const view = make("div");
  if (schema.description) view.append(make("p", schema.description, "words"));
  const choices = schema.oneOf?.map(objectIn).filter(Boolean) ?? [];
  if (!schema.properties && choices.length > 1) choices.forEach((choice, i) => view.append(later(`Choice ${i + 1}`, () => fields(choice))));
  else if (objectIn(schema)) view.append(fields(objectIn(schema)));
  else view.append(make("p", typeOf(schema), "note"));
  return view;
}
