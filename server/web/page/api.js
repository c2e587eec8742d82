// api.js - asks the server, with the tab's token, and turns its problem documents into errors that say what is wrong.
let askForToken = () => {};

// Called when the server asks for a token that this tab does not have.
export function onUnauthenticated(call) { askForToken = call; }

// The token is kept for this tab alone.
export const setToken = (token) => sessionStorage.setItem("token", token);

export async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(path, { cache: "no-store", ...options, headers });
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    askForToken();
  }
  return answer;
}

// An error with the answer's status, and the problem document where there is one.
export async function refusal(answer, path) {
  let problem = null;
  try { problem = await answer.json(); } catch { /* it has none */ }
  const text = answer.status === 401 ? "the server asks for a token" : problem?.detail ?? `${path}: ${answer.status}`;
  return Object.assign(new Error(text), { status: answer.status, problem });
}

export async function get(path, kind = "json", options = {}) {
  const answer = await ask(path, options);
  if (!answer.ok) throw await refusal(answer, path);
  return answer[kind]();
}

export async function send(method, path, value) {
  const body = value === undefined ? undefined : JSON.stringify(value);
  const answer = await ask(path, { method, body, headers: body ? { "Content-Type": "application/json" } : {} });
  if (!answer.ok) throw await refusal(answer, path);
  return answer.status === 204 ? null : answer.json();
}

// A mesh file as it is. query: what is to be done with it, as text.
export async function upload(file, query) {
  const path = `v1/meshes${query}`;
  const answer = await ask(path, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
  if (!answer.ok) throw await refusal(answer, path);
  return answer.json();
}

// Server-sent events, read here rather than by EventSource, which sends no token. Calls on(name, text) for each until the
// server ends the stream, the connection breaks (throws) or the signal aborts it (throws).
export async function events(path, on, signal) {
  const answer = await ask(path, { signal, headers: { Accept: "text/event-stream" } });
  if (!answer.ok) throw await refusal(answer, path);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    pieces.push(value);
    // A large event comes in many pieces; they are joined once one of them, or two together, may hold its end.
    if (!value.includes("\n\n") && value[0] !== "\n") continue;
    const blocks = pieces.join("").split("\n\n");
    pieces = [blocks.pop()];
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      }
      if (data.length) on(name, data.join("\n"));
    }
  }
}
