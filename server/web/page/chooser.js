// chooser.js - the field in which a scene is chosen: by its number, or by its name, of all that the server has.
import { get } from "./api.js";
import { byId, count, make } from "./dom.js";

const PAUSE_MS = 150; // after the last key
const OFFERED = 20;

// The scenes whose number begins with the text, or whose name has it.
function find(text) {
  const query = new URLSearchParams({ limit: OFFERED, ...(text ? { find: text } : {}) });
  return get(`v1/scenes?${query}`);
}

async function offer(text) {
  const { scenes } = await find(text);
  if (text !== byId("chosen").value.trim()) return; // a later question is on its way
  byId("known").replaceChildren(...scenes.map((scene) => {
    const option = make("option", scene.name);
    option.value = scene.id;
    return option;
  }));
}

// Of a text that is no number: the one scene that has this name, or the only one with it in its name.
async function idOf(text) {
  if (/^[1-9][0-9]*$/.test(text)) return text;
  const { scenes, next } = await find(text);
  const same = scenes.filter((scene) => scene.name === text);
  const [found] = same.length ? same : scenes;
  if ((same.length || scenes.length) === 1 && !next) return found.id;
  const n = `${count(scenes.length)}${next ? " or more" : ""}`;
  throw new Error(found ? `${n} scenes have "${text}" in their name: choose one by its number` : `no scene has "${text}" in its name`);
}

// choose(id): somebody chose a scene.
export function listenToChooser(choose) {
  const field = byId("chosen");
  let timer = 0;
  const offerSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => offer(field.value.trim()).catch(() => {}), PAUSE_MS); // a number goes without offers
  };
  field.addEventListener("input", offerSoon);
  field.addEventListener("focus", offerSoon);
  byId("chooser").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      choose(await idOf(field.value.trim()));
      byId("chooser-note").textContent = "";
    } catch (error) {
      byId("chooser-note").textContent = error.message;
    }
  });
}
