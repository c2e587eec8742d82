// feed.js - keeps the connection to a scene's events, and makes it anew when it breaks.
import { events } from "./api.js";

const LONGEST_PAUSE_MS = 5000;
// How long a scene may be missing once the connection was lost: of a server that begins anew, clients open their scenes again.
const ABSENCE_MS = 60000;

// on: {scene(value), frame(value), state(kind, text)}; kind: "live", "waiting", "closed", "refused", "absent" (the server has
// no live view). Returns a function that ends it.
export function follow(scene, query, on) {
  const control = new AbortController();
  let pause = 500;
  let last = -Infinity; // when something came
  const wait = () => new Promise((resolve) => { setTimeout(resolve, pause); pause = Math.min(2 * pause, LONGEST_PAUSE_MS); });

  async function run() {
    for (;;) {
      let closed = null;
      try {
        on.state("waiting", "connecting");
        await events(`v1/scenes/${scene}/live${query}`, (name, text) => {
          const value = JSON.parse(text);
          pause = 500;
          last = performance.now();
          if (name === "closed") closed = value;
          else on[name]?.(value);
          if (name === "scene") on.state("live", "live");
        }, control.signal);
        if (control.signal.aborted) return;
        if (closed && !closed.again) return on.state("closed", `scene ${scene}: ${closed.reason ?? "it was closed"}`);
        on.state("waiting", `${closed?.reason ?? "the server ended the connection"}; trying again`);
      } catch (error) {
        if (control.signal.aborted) return;
        const again = error.status === undefined || error.status === 429 || error.status === 503;
        if (error.problem?.title === "no such resource") return on.state("absent", "this server has no live view");
        const mayCome = error.status === 404 && performance.now() - last < ABSENCE_MS;
        if (error.status === 404 && !mayCome) return on.state("closed", `scene ${scene} is not there${Number.isFinite(last) ? " any more" : ", or is another principal's"}`);
        if (!again && !mayCome) return on.state("refused", error.message);
        on.state("waiting", error.status ? `${error.message}; trying again` : "no answer from the server; trying again");
      }
      await wait();
      if (control.signal.aborted) return;
    }
  }
  run();
  return () => control.abort();
}
