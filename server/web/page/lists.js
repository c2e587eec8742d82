// lists.js - the contacts and the bodies of the frame that the view shows, as tables; what is picked in one is picked in both.
import { byId, count, number } from "./dom.js";
import { SortedTable } from "./sorted.js";

const PERIOD_MS = 500; // tables that change faster cannot be read

const norm = (v) => (v ? Math.hypot(v[0], v[1], v[2]) : NaN);
const contactRow = (contact, index) => ({
  index, key: `contact-${contact.bodies.join("-")}-${index}`, pair: 1e10 * contact.bodies[0] + contact.bodies[1], bodies: contact.bodies,
  volume: contact.volume ?? NaN, depth: contact.depth ?? NaN, area: contact.area ?? NaN,
  force: norm(Array.isArray(contact.wrench?.[0]) ? contact.wrench[0] : contact.wrench),
});

// What a frame does not have, in words.
function leftOut(frame) {
  if (!frame?.truncated) return "";
  const n = frame.contacts.length;
  return n < frame.total ? `the view has ${count(n)} of the step's ${count(frame.total)}` : "some surfaces have more polygons than the view takes";
}

export class Lists {
  // pick({body?, contact?}): somebody chose a row.
  constructor(pick) {
    const text = (key) => (row) => number(row[key], 4);
    this.contacts = new SortedTable(byId("contacts"), "contacts", [
      { key: "pair", title: "Bodies", text: (row) => row.bodies.join(", ") },
      { key: "volume", title: "Volume, m³", text: text("volume"), numeric: true },
      { key: "depth", title: "Depth, m", text: text("depth"), numeric: true },
      { key: "area", title: "Area, m²", text: text("area"), numeric: true },
      { key: "force", title: "Force, N", text: text("force"), numeric: true },
    ], "no contacts", (row) => pick({ contact: row.index, body: null }));
    Object.assign(this.contacts, { key: "volume", falling: true });
    this.bodies = new SortedTable(byId("bodies"), "bodies", [
      { key: "id", title: "Body", text: (row) => (row.name ? `${row.id} ${row.name}` : String(row.id)) },
      { key: "kind", title: "Kind", text: (row) => row.kind.replace("_", "-") },
      { key: "triangles", title: "Triangles", text: (row) => (row.triangles ? count(row.triangles) : "–"), numeric: true },
      { key: "n_contacts", title: "Contacts", text: (row) => count(row.n_contacts), numeric: true },
      { key: "shown", title: "Shown", text: (row) => (row.shown ? "yes" : "hidden") },
    ], "no bodies", (row) => pick({ body: row.id, contact: null }));
    this.selection = { body: null, contact: null };
    this.contacts.is_selected = (row) => row.index === this.selection.contact;
    this.bodies.is_selected = (row) => row.id === this.selection.body;
  }

  // bodies: of the event `scene`; hidden: a set of ids.
  setFrame(frame, bodies, hidden) {
    this.latest = { frame, bodies, hidden };
    if (this.timer) return;
    this.#show();
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.latest) this.#show();
    }, PERIOD_MS);
  }

  #show() {
    const { frame, bodies, hidden } = this.latest;
    this.latest = null;
    const contacts = frame?.contacts ?? [];
    this.contacts.setRows(contacts.map(contactRow), leftOut(frame));
    const counts = new Map();
    for (const contact of contacts) for (const id of new Set(contact.bodies)) counts.set(id, (counts.get(id) ?? 0) + 1);
    this.bodies.setRows(bodies.map((body) => ({
      ...body, key: `body-${body.id}`, triangles: body.triangles ?? 0, n_contacts: counts.get(body.id) ?? 0, shown: !hidden.has(body.id),
    })));
  }

  select(selection) {
    this.selection = selection;
    this.contacts.reveal();
    this.bodies.reveal();
  }
}
