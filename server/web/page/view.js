// view.js - a 3D view on a canvas: camera, light, orbit by pointer and keys, picking, following. Draws only when something
// changed. Knows nothing of the server.
import {
  Color, DirectionalLight, Frustum, HemisphereLight, Matrix4, OrbitControls, PerspectiveCamera, Raycaster, Scene, Vector2,
  Vector3, WebGLRenderer,
} from "./three.js";
import { Bodies } from "./bodies3d.js";
import { Contacts } from "./contacts3d.js";

const CLICK_PX = 5; // a pointer that moved further between down and up has turned the view
const PICK_PX = 12;
const SLOW_MS = 50; // pictures that take longer are made of coarser copies while things move
const STILL_MS = 400; // after which a picture is drawn with all that is to be seen

// Whether pictures are computed without a GPU, where smooth edges cost more than all else.
function isSoftware() {
  const context = document.createElement("canvas").getContext("webgl2");
  const names = context?.getExtension("WEBGL_debug_renderer_info");
  const name = context?.getParameter(names?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER) ?? "";
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|basic render/i.test(name);
}

export class View {
  // Throws where there is no WebGL. on: {pick({body?, contact?})}
  constructor(canvas, on) {
    this.canvas = canvas;
    this.software = isSoftware();
    this.renderer = new WebGLRenderer({ canvas, antialias: !this.software });
    this.haste = this.software ? 3 : 1;
    this.last = 0; // when the last picture was drawn
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(45, 1, 0.01, 1000);
    this.camera.up.set(0, 0, 1);
    this.camera.position.set(3, -4, 2.5);
    this.bodies = new Bodies();
    this.contacts = new Contacts();
    const light = new DirectionalLight(0xffffff, 2);
    light.position.set(0.4, 0.2, 1);
    this.camera.add(light);
    this.scene.add(new HemisphereLight(0xffffff, 0x667080, 1.6), this.camera, this.bodies.group, this.contacts.group);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.addEventListener("change", () => this.touch());
    this.frame = null;
    this.size = 1; // of what is shown, in m
    this.follows = false;
    this.selection = { body: null, contact: null };
    this.drawn = 0; // pictures
    this.#listen(on);
    this.setTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.setTheme());
    new ResizeObserver(() => this.touch()).observe(canvas);
  }

  setTheme() {
    this.scene.background = new Color(getComputedStyle(this.canvas).backgroundColor);
    this.touch();
  }

  // Something changed: a picture is drawn with the next of the screen.
  touch() {
    if (this.request) return;
    this.request = requestAnimationFrame((now) => {
      this.request = 0;
      const took = now - this.last;
      this.last = now;
      // Two pictures in a row tell what one takes, also where the GPU draws long after it was asked to.
      if (this.was_moving && took > SLOW_MS && took < 10 * SLOW_MS) this.haste = Math.min(4, this.haste * 1.1);
      this.was_moving = took < 10 * SLOW_MS;
      this.draw(this.haste);
      clearTimeout(this.timer);
      if (this.haste > 1) this.timer = setTimeout(() => this.draw(1), STILL_MS);
    });
  }

  draw(haste = 1) {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || !height) return;
    const ratio = this.software ? 1 : Math.min(devicePixelRatio, 2);
    if (this.canvas.width !== Math.floor(width * ratio) || this.canvas.height !== Math.floor(height * ratio)) {
      this.renderer.setPixelRatio(ratio);
      this.renderer.setSize(width, height, false);
      this.camera.aspect = width / height;
      this.camera.updateProjectionMatrix();
    }
    this.camera.updateMatrixWorld();
    const both = new Matrix4().multiplyMatrices(this.camera.projectionMatrix, this.camera.matrixWorldInverse);
    this.bodies.prepare(this.camera, new Frustum().setFromProjectionMatrix(both), height, haste, 4 * this.size);
    this.renderer.render(this.scene, this.camera);
    this.drawn++;
  }

  setFrame(frame) {
    const before = this.follows && this.#center(this.selection.body);
    this.frame = frame;
    this.bodies.setFrame(frame);
    const after = before && this.#center(this.selection.body);
    if (after) {
      const move = after.sub(before);
      this.camera.position.add(move);
      this.controls.target.add(move);
      this.controls.update();
    }
    this.#setContacts();
    this.touch();
  }

  #setContacts() {
    this.contacts.setFrame(this.frame, this.size, this.selection.contact, (id) => Boolean(this.bodies.bodies.get(id)?.plane));
  }

  #center(id) {
    return id === null ? null : this.bodies.boxOf(id)?.getCenter(new Vector3()) ?? null;
  }

  // The whole scene in the picture, or one body.
  fit(id = null) {
    const box = (id !== null && this.bodies.boxOf(id)) || this.bodies.box();
    if (box.isEmpty()) return;
    const all = this.bodies.box();
    this.size = all.isEmpty() ? 1 : all.getSize(new Vector3()).length() || 1;
    const radius = box.getSize(new Vector3()).length() / 2 || 1;
    const way = this.camera.position.clone().sub(this.controls.target).normalize();
    const distance = 1.1 * radius / Math.sin(this.camera.fov * Math.PI / 360) / Math.min(1, this.camera.aspect);
    box.getCenter(this.controls.target);
    this.camera.position.copy(this.controls.target).addScaledVector(way, distance);
    this.camera.near = Math.min(distance, this.size) / 500;
    this.camera.far = 20 * (distance + this.size);
    this.camera.updateProjectionMatrix();
    this.controls.update();
    if (this.frame) this.#setContacts();
    this.touch();
  }

  select(selection) {
    this.selection = { body: null, contact: null, ...selection };
    this.bodies.selected = this.selection.body;
    if (this.frame) this.#setContacts();
    this.touch();
  }

  // Turns by angles about the target, and comes nearer by a factor.
  turn(azimuth, elevation, nearer = 1) {
    const way = this.camera.position.clone().sub(this.controls.target);
    const length = way.length() / nearer;
    const along = Math.atan2(way.y, way.x) + azimuth;
    const above = Math.min(1.55, Math.max(-1.55, Math.asin(way.z / way.length()) + elevation));
    way.set(Math.cos(along) * Math.cos(above), Math.sin(along) * Math.cos(above), Math.sin(above));
    this.camera.position.copy(this.controls.target).addScaledVector(way, length);
    this.controls.update();
    this.touch();
  }

  // Where a point of the world is on the canvas, in pixels from its upper left corner.
  project(point) {
    const p = new Vector3(...point).project(this.camera);
    return [(p.x + 1) * this.canvas.clientWidth / 2, (1 - p.y) * this.canvas.clientHeight / 2];
  }

  rayAt([x, y]) {
    const raycaster = new Raycaster();
    raycaster.setFromCamera(new Vector2(2 * x / this.canvas.clientWidth - 1, 1 - 2 * y / this.canvas.clientHeight), this.camera);
    return raycaster;
  }

  #listen(on) {
    let down = null;
    this.canvas.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; });
    this.canvas.addEventListener("pointerup", (event) => {
      if (!down || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > CLICK_PX) return;
      const box = this.canvas.getBoundingClientRect();
      const place = [event.clientX - box.left, event.clientY - box.top];
      const contact = this.contacts.pick(place, PICK_PX, (point) => this.project(point));
      const body = contact === null ? this.bodies.pick(this.rayAt(place))?.id ?? null : null;
      on.pick({ body, contact });
    });
    const keys = {
      ArrowLeft: () => this.turn(-0.1, 0), ArrowRight: () => this.turn(0.1, 0),
      ArrowUp: () => this.turn(0, 0.1), ArrowDown: () => this.turn(0, -0.1),
      "+": () => this.turn(0, 0, 1.15), "-": () => this.turn(0, 0, 1 / 1.15),
      Home: () => this.fit(), Escape: () => on.pick({ body: null, contact: null }),
      n: () => on.pick({ body: this.#neighbour(1), contact: null }), p: () => on.pick({ body: this.#neighbour(-1), contact: null }),
    };
    this.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  #neighbour(step) {
    const ids = [...this.bodies.bodies.keys()];
    if (!ids.length) return null;
    const at = ids.indexOf(this.selection.body);
    return ids[(Math.max(at, step < 0 ? 0 : -1) + step + ids.length) % ids.length];
  }

  // A PNG file of the picture.
  save() {
    this.draw();
    return new Promise((resolve) => { this.canvas.toBlob(resolve, "image/png"); });
  }
}

