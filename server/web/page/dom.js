// dom.js - elements, tables and numbers as texts.
export const byId = (id) => document.getElementById(id);

export function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

export function button(text, act, className = "act") {
  const element = make("button", text, className);
  element.type = "button";
  element.addEventListener("click", act);
  return element;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function micros(us) {
  if (!Number.isFinite(us)) return us > 0 ? "beyond" : "–";
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return `${us.toPrecision(3)} µs`;
}

export const count = (n) => n.toLocaleString("en");
export const number = (n, digits = 5) => {
  if (!Number.isFinite(n)) return "–";
  return Math.abs(n) >= 1e7 ? n.toExponential(4) : Number(n.toPrecision(digits)).toString();
};
export const rounded = (n) => count(Number(n.toPrecision(3))); // a rate
export const triple = (v) => v.map((x) => number(x, 4)).join(", ");

export function time(s) {
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s)} s`;
}

export function cards(list, pairs) {
  list.replaceChildren(...pairs.map(([name, value]) => {
    const card = make("div");
    card.append(make("dt", name), make("dd", value));
    return card;
  }));
}

// rows: arrays of cells, the first of which names the row; a cell is a text or an element. numeric: columns set flush right.
// mark(i): a class for row i. Whatever of the table has the focus, by its data-key, keeps it.
export function table(body, rows, numeric, none, mark = () => "") {
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  body.replaceChildren(...rows.map((cells, number_of_row) => {
    const row = make("tr", undefined, mark(number_of_row));
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
}

// An image as a data URL: the page's policy lets images come from nowhere else but the server itself.
export function dataUrl(blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.readAsDataURL(blob);
  });
}

// Hands a file to the reader of the page.
export function download(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
