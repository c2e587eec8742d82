// history.js - the last seconds of a scene: frames in order, whole each, within a bound of time and of memory.
import { decode } from "./glb.js";

const SECONDS = 20;
const MAX_BYTES = 64 << 20;

// What events tell is only what changed; a frame here has all poses and positions, which frames share where they are equal.
export class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.frames = [];
    this.bytes = 0;
    this.waiting = null; // the newest frame, while the history stands still
    this.poses = new Map(); // body -> Float32Array of 12
    this.positions = new Map(); // body -> Float32Array
  }

  // Bodies of the scene changed: those that are gone are not kept.
  keep(ids) {
    for (const map of ["poses", "positions"]) this[map] = new Map([...this[map]].filter(([id]) => ids.has(id)));
  }

  add(event, now) {
    let bytes = 200;
    if (event.poses) {
      const data = decode(event.poses.data, Float32Array);
      this.poses = new Map(this.poses);
      event.poses.ids.forEach((id, i) => this.poses.set(id, data.subarray(12 * i, 12 * i + 12)));
      bytes += data.byteLength + 40 * this.poses.size;
    }
    if (event.positions?.length) {
      this.positions = new Map(this.positions);
      for (const { id, data } of event.positions) {
        this.positions.set(id, decode(data, Float32Array));
        bytes += this.positions.get(id).byteLength;
      }
    }
    const contacts = (event.contacts ?? []).map((contact) => {
      bytes += 300 + 200 * (contact.points?.length ?? 0);
      if (!contact.surface) return contact;
      const surface = {
        offsets: decode(contact.surface.offsets, Uint32Array),
        vertices: decode(contact.surface.vertices, Float32Array),
        pressure: contact.surface.pressure ? decode(contact.surface.pressure, Float32Array) : null,
      };
      bytes += surface.offsets.byteLength + 1.4 * surface.vertices.byteLength;
      return { ...contact, surface };
    });
    const separations = event.separations ?? [];
    bytes += 200 * separations.length;
    const frame = {
      at: now, bytes, step: event.step, time: event.time, poses: this.poses, positions: this.positions, contacts, separations,
      n_separations: event.n_separations ?? separations.length, total: event.n_contacts ?? contacts.length, truncated: event.truncated === true,
    };
    if (this.stands) this.waiting = frame;
    else this.#push(frame);
    return frame;
  }

  #push(frame) {
    this.frames.push(frame);
    this.bytes += frame.bytes;
    while (this.frames.length > 1 && (this.bytes > MAX_BYTES || frame.at - this.frames[0].at > SECONDS * 1000)) {
      this.bytes -= this.frames.shift().bytes;
    }
  }

  // While it stands still no frame comes or goes, so that what led to a moment can be looked at.
  stand(still) {
    this.stands = still;
    if (!still && this.waiting) this.#push(this.waiting);
    this.waiting = null;
  }
}
