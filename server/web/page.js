// page.js - which part of the page is shown, by the address behind '#'; asks anew every two seconds while someone looks.
import { onUnauthenticated, setToken } from "./page/api.js";
import { listenToChooser } from "./page/chooser.js";
import { byId } from "./page/dom.js";
import { refreshGraphs } from "./page/graphs.js";
import { closeScene, openScene } from "./page/live.js";
import { findScenes, refreshOverview, showDetail, turnPage } from "./page/overview.js";
import { showSettings } from "./page/settings.js";
import { openTry } from "./page/try.js";

const PERIOD_MS = 2000;
const PARTS = ["overview", "scene", "graphs", "try"];
let part = "overview";
let scene = null;
let running = false;

function login(event) {
  event.preventDefault();
  setToken(byId("token").value.trim());
  byId("token").value = "";
  byId("login").hidden = true;
  go();
}

async function refresh() {
  if (running || !byId("login").hidden) return;
  running = true;
  try {
    await refreshOverview();
    if (part === "scene" && scene !== null) await showDetail(scene).catch(() => {}); // the live panel says if it is gone
    if (part === "graphs") await refreshGraphs();
  } finally {
    running = false;
  }
}

// "#scene/3" -> the part scene, of it scene 3
function go() {
  const [name, argument] = location.hash.slice(1).split("/");
  part = PARTS.includes(name) ? name : "overview";
  for (const other of PARTS) byId(other).hidden = other !== part;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.part === part) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const wanted = part === "scene" && /^[1-9][0-9]*$/.test(argument ?? "") ? Number(argument) : null;
  if (wanted === null) closeScene();
  else {
    byId("live").hidden = false;
    byId("chosen").value = wanted;
    openScene(wanted);
    showSettings(wanted);
  }
  if (part === "scene") byId("live").hidden = wanted === null;
  if (part === "try") openTry(argument);
  scene = wanted;
  refresh();
}

onUnauthenticated(() => { byId("login").hidden = false; });
byId("login").addEventListener("submit", login);
listenToChooser((id) => { location.hash = `#scene/${id}`; });
byId("scenes-back").addEventListener("click", () => turnPage(0));
byId("scenes-on").addEventListener("click", () => turnPage(Number(byId("scenes-on").value)));
byId("scenes-find").addEventListener("input", () => findScenes(byId("scenes-find").value.trim()));
addEventListener("hashchange", go);
setInterval(() => { if (!document.hidden && !byId("pause").checked) refresh(); }, PERIOD_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
go();
