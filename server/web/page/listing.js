// listing.js - all contacts of a scene's last step, in pages that the server sorts; the view may have only some of them.
import { get } from "./api.js";
import { button, byId, count, number, table } from "./dom.js";

const ROWS = 50; // of a page

// scene(): the id; pick(contact): somebody chose a row.
export function listContacts(scene, pick) {
  let offset = 0;
  let total = 0;

  async function show() {
    const note = byId("all-note");
    const body = byId("all-body").value.trim();
    const query = new URLSearchParams({ offset, limit: ROWS, sort: byId("all-sort").value, ...(body ? { body } : {}) });
    try {
      const answer = await get(`v1/scenes/${scene()}/contacts?${query}`);
      total = answer.total;
      table(byId("all-contacts"), answer.contacts.map((contact, i) => {
        const choose = button(contact.bodies.join(", "), () => pick(contact), "plain");
        choose.dataset.key = `all-${offset + i}`;
        return [choose, number(contact.volume ?? NaN, 4), number(contact.depth ?? NaN, 4), number(contact.area ?? NaN, 4)];
      }), [1, 2, 3], "no contacts");
      const last = offset + answer.contacts.length;
      note.textContent = total ? `${count(Math.min(offset + 1, total))} to ${count(last)} of ${count(total)}, step ${count(answer.step)}` : "";
    } catch (error) {
      total = 0;
      note.textContent = error.message;
    }
    byId("all-back").disabled = offset === 0;
    byId("all-on").disabled = offset + ROWS >= total;
  }

  const from = (next) => {
    offset = Math.max(0, next);
    return show();
  };
  byId("all").addEventListener("toggle", () => { if (byId("all").open) from(0); });
  byId("all-again").addEventListener("click", () => from(0));
  byId("all-sort").addEventListener("change", () => from(0));
  byId("all-body").addEventListener("change", () => from(0));
  byId("all-back").addEventListener("click", () => from(offset - ROWS));
  byId("all-on").addEventListener("click", () => from(offset + ROWS));
}
