// sorted.js - a table that is sorted by a click on a column's head, in pages, one of whose rows may be selected.
import { button, count, make, table } from "./dom.js";

const ROWS = 50; // of a page

export class SortedTable {
  // place: an element that the table goes into; name: of the table, for those who do not see it. columns: {key, title, text(row),
  // numeric}; a row is sorted by row[key], and its first column's cell is the button that calls pick(row).
  constructor(place, name, columns, none, pick) {
    Object.assign(this, { columns, none, pick, rows: [], page: 0, key: columns[0].key, falling: false, is_selected: () => false });
    const box = make("div", undefined, "scroll");
    box.tabIndex = 0;
    box.role = "region";
    box.ariaLabel = `Table of ${name}`;
    const whole = make("table");
    const head = make("tr");
    this.heads = columns.map((column) => {
      const cell = make("th", undefined, column.numeric ? "n" : "");
      cell.scope = "col";
      cell.append(button(column.title, () => this.sort(column.key), "plain"));
      head.append(cell);
      return cell;
    });
    const top = make("thead");
    top.append(head);
    this.body = make("tbody");
    whole.append(top, this.body);
    box.append(whole);
    this.note = make("p", "", "note");
    this.back = button("Previous", () => { this.page--; this.show(); });
    this.on = button("Next", () => { this.page++; this.show(); });
    const pages = make("p", undefined, "pages");
    pages.append(this.back, this.on, this.note);
    place.replaceChildren(box, pages);
  }

  sort(key) {
    this.falling = this.key === key ? !this.falling : this.columns.find((c) => c.key === key).numeric === true;
    this.key = key;
    this.page = 0;
    this.show();
  }

  setRows(rows, note = "") {
    this.rows = rows;
    this.more = note;
    this.show();
  }

  // The page that has the selected row, if there is one.
  reveal() {
    const at = this.#sorted().findIndex((row) => this.is_selected(row));
    if (at >= 0) this.page = Math.floor(at / ROWS);
    this.show();
    this.body.querySelector(".selected")?.scrollIntoView({ block: "nearest" });
  }

  #sorted() {
    const rows = [...this.rows];
    const { key } = this;
    rows.sort((a, b) => (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
    return this.falling ? rows.reverse() : rows;
  }

  show() {
    const sorted = this.#sorted();
    const pages = Math.max(1, Math.ceil(sorted.length / ROWS));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const rows = sorted.slice(ROWS * this.page, ROWS * (this.page + 1));
    this.columns.forEach((column, i) => {
      const order = column.key !== this.key ? "none" : this.falling ? "descending" : "ascending";
      this.heads[i].ariaSort = order;
    });
    const cells = rows.map((row) => this.columns.map((column, i) => {
      if (i) return column.text(row);
      const choose = button(column.text(row), () => this.pick(row), "plain");
      choose.dataset.key = row.key;
      choose.ariaPressed = String(this.is_selected(row));
      return choose;
    }));
    const numeric = this.columns.flatMap((column, i) => (column.numeric ? [i] : []));
    table(this.body, cells, numeric, this.none, (i) => (this.is_selected(rows[i]) ? "selected" : ""));
    this.back.disabled = this.page === 0;
    this.on.disabled = this.page === pages - 1;
    this.back.hidden = this.on.hidden = pages === 1;
    const range = pages > 1 ? `${count(ROWS * this.page + 1)} to ${count(ROWS * this.page + rows.length)} of ${count(sorted.length)}` : "";
    this.note.textContent = [range, this.more].filter(Boolean).join("; ");
  }
}
