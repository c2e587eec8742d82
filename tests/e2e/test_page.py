"""The page in a browser: what it shows of a scene, how it is used, and what it says when something is wrong."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
import subprocess
import sys
import threading

import contactd
import numpy as np
import pytest
from browser import Tab, browser
from conftest import BUILD, CC, PATIENCE, ROOT, free_port, wait_until
from http_api import OPENAPI, box, obj
from page_server import page_server, two_rings

COLORS = {"blue": (0x4E, 0x79, 0xA7), "orange": (0xF2, 0x8E, 0x2B)}  # of the first two bodies
VIOLET = (0xBE, 0x4B, 0xDB)  # of separations


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture
def tab(chromium):
    opened = Tab(chromium)
    yield opened
    assert opened.errors == []
    opened.context.close()


@dataclasses.dataclass
class Watched:
    tab: Tab
    script: object
    url: str


@pytest.fixture
def watched(tab):
    """A tab that shows the scene of two rings."""
    script = two_rings()
    with page_server(script) as url:
        tab.page.goto(f"{url}/#scene/1")
        tab.until("() => window.contactdView?.drawn > 2 && contactdView.bodies.instances.size === 1 && contactdView.size !== 1",
                  "pictures of bodies that the view was fitted to")
        yield Watched(tab, script, url)
        tab.page.goto("about:blank")


def share(pixels: np.ndarray, color: tuple[int, int, int]) -> float:
    """Of the pixels, those of that hue: light and shadow make them lighter and darker."""
    centred = pixels - pixels.mean(-1, keepdims=True)
    wanted = np.array(color) - np.mean(color)
    lengths = np.linalg.norm(centred, axis=-1) * np.linalg.norm(wanted)
    return float(((centred @ wanted > 0.95 * lengths) & (np.linalg.norm(centred, axis=-1) > 20)).mean())


def place(tab: Tab, point: list[float]) -> tuple[float, float]:
    x, y = tab.page.evaluate("(p) => contactdView.project(p)", point)
    box = tab.page.locator("#canvas").bounding_box()
    return box["x"] + x, box["y"] + y


# ---- what is to be seen ----


def test_bodies_and_contacts_are_drawn(watched):
    tab = watched.tab
    tab.page.uncheck("#through")
    tab.until_text("#frame", "2 contacts")
    # The torque about the contact's centre, which is 0.25 m beside the first ring's origin: 0.1 N m and 0.25 m * 4 N.
    assert tab.page.evaluate("() => contactdView.contacts.largest.torque") == pytest.approx(1.1)
    solid = tab.pixels()
    assert share(solid, COLORS["blue"]) > 0.01 and share(solid, COLORS["orange"]) > 0.01
    assert share(solid, (0xE0, 0x31, 0x31)) > 0.0005, "the arrow of the force"
    assert share(solid, VIOLET) > 0.00002, "the line between bodies that come close"
    assert "violet lines: 7 pairs within the margin, of which 1 are drawn, the nearest 0.2 m (bodies 2 and 3)" in tab.text("#legend")
    for kind in ("surface", "normal", "force", "points", "separation"):
        tab.page.uncheck(f"#show-{kind}")
    tab.until_text("#legend", lambda text: "red" not in text)
    assert share(tab.pixels(), (0xE0, 0x31, 0x31)) < 0.0005
    assert share(tab.pixels(), VIOLET) == 0
    assert not {"100 Pa", "violet"} & set(tab.text("#legend").split())
    assert tab.text("#live-state") == "live" and "3 bodies, 4,608 triangles" in tab.text("#live-facts")


def test_a_pause_holds_still_and_scrubbing_goes_back(watched):
    tab = watched.tab
    step = lambda: int(tab.text("#frame").split()[1].rstrip(","))  # noqa: E731
    wait_until(lambda: step() > 20, "20 steps")
    tab.page.click("#hold")
    held = step()
    at = tab.page.evaluate("() => contactdView.bodies.bodies.get(2).matrix.elements[12]")
    n = len(watched.script.requests)
    wait_until(lambda: len(watched.script.requests) > n + 3, "the page to ask for something else meanwhile")
    assert step() == held and tab.page.evaluate("() => contactdView.bodies.bodies.get(2).matrix.elements[12]") == at
    tab.page.focus("#scrub")
    tab.page.keyboard.press("Home")
    assert step() < held - 10 and "s ago" in tab.text("#frame")
    assert tab.page.evaluate("() => contactdView.bodies.bodies.get(2).matrix.elements[12]") != at
    tab.page.click("#hold")
    wait_until(lambda: step() > held, "the view to go on")


def test_pick_hide_and_follow(watched):
    tab, page = watched.tab, watched.tab.page
    tab.until("() => document.querySelectorAll('#bodies tbody tr').length === 3", "the list of bodies")
    page.mouse.click(*place(tab, [-0.6, 0, 0.14]))  # on top of the first ring
    tab.until_text("#picked", "Body 1 ring 1")
    assert page.get_attribute('#bodies button[data-key="body-1"]', "aria-pressed") == "true"
    page.mouse.click(*place(tab, [0, 0, 0]))
    tab.until_text("#picked", "Contact of bodies 1 and 2: volume 0.002")
    page.click('#bodies button[data-key="body-2"]')
    tab.until_text("#picked", "Body 2 ring 2")
    page.check("#follow")
    target = "() => contactdView.controls.target.x - contactdView.bodies.boxOf(2).getCenter(contactdView.camera.position.clone()).x"
    offset = page.evaluate(target)
    drawn = page.evaluate("() => contactdView.drawn")
    tab.until(f"() => contactdView.drawn > {drawn} + 5", "more pictures")
    assert page.evaluate(target) == pytest.approx(offset, abs=1e-5)  # the camera goes with the body
    page.click("#hide")
    page.uncheck("#through")
    wait_until(lambda: share(tab.pixels(), COLORS["orange"]) < 0.001, "the second ring to go")
    page.click("#show-all")
    wait_until(lambda: share(tab.pixels(), COLORS["orange"]) > 0.01, "the second ring to come back")


def test_keys(watched):
    tab, page = watched.tab, watched.tab.page
    page.focus("#canvas")
    where = "() => contactdView.camera.position.toArray()"
    for key in ("ArrowLeft", "ArrowUp", "+", "Home"):
        before = page.evaluate(where)
        page.keyboard.press(key)
        assert page.evaluate(where) != before, key
    page.keyboard.press("n")
    tab.until_text("#picked", "Body 1")
    page.keyboard.press("n")
    tab.until_text("#picked", "Body 2")
    page.keyboard.press("Escape")
    tab.until_text("#picked", "Nothing is picked")


def test_lists_are_sorted(watched):
    tab, page = watched.tab, watched.tab.page
    first = lambda: page.locator("#contacts tbody tr").first.inner_text().split("\t")[0]  # noqa: E731
    wait_until(lambda: first() == "1, 3", "the contact of most volume to be the first")
    page.click("#contacts thead button:has-text('Depth')")
    assert first() == "1, 2" and page.get_attribute("#contacts thead th:nth-child(3)", "aria-sort") == "descending"
    page.click("#contacts thead button:has-text('Depth')")
    assert first() == "1, 3"


def test_all_contacts_are_listed(watched):
    tab, page = watched.tab, watched.tab.page
    contacts = [{"bodies": [1, 3], "volume": 0.003}, {"bodies": [2, 9], "volume": 0.001, "depth": 0.5}]
    watched.script.more["/v1/scenes/1/contacts"] = {"step": 7, "offset": 0, "total": 120, "contacts": contacts}
    page.click("#all > summary")
    tab.until_text("#all-note", "1 to 2 of 120, step 7")
    page.click("#all-contacts button:has-text('1, 3')")
    tab.until_text("#picked", "Contact of bodies 1 and 3")
    page.click("#all-contacts button:has-text('2, 9')")
    tab.until_text("#picked", "Body 2")
    page.select_option("#all-sort", "depth")
    page.fill("#all-body", "2")
    page.click("#all-on")
    asked = "/v1/scenes/1/contacts?offset=50&limit=50&sort=depth&body=2"
    wait_until(lambda: asked in watched.script.requests, "the next page to be asked for")


def test_the_picture_is_saved(watched):
    with watched.tab.page.expect_download() as download:
        watched.tab.page.click("#save")
    assert download.value.suggested_filename == "contactd-scene-1.png"
    with open(download.value.path(), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def test_the_scene_is_saved_as_gltf(watched):
    """The two rings share the one mesh; the half-space, which has no end, is left out, and so is what is hidden."""
    page = watched.tab.page
    page.click("#hold")

    def saved() -> dict:
        with page.expect_download() as download:
            page.click("#export")
        assert download.value.suggested_filename == "contactd-scene-1.glb"
        with open(download.value.path(), "rb") as file:
            data = file.read()
        magic, version, total, length, kind = struct.unpack_from("<4sIII4s", data)
        assert (magic, version, total, kind) == (b"glTF", 2, len(data), b"JSON")
        document = json.loads(data[20 : 20 + length])
        binary, kind = struct.unpack_from("<I4s", data, 20 + length)
        assert kind == b"BIN\0" and binary == document["buffers"][0]["byteLength"] == len(data) - 28 - length
        return document

    document = saved()
    root, *rings = document["nodes"]
    assert root["children"] == [1, 2] and [ring["name"] for ring in rings] == ["ring 1", "ring 2"]
    assert np.reshape(rings[0]["matrix"], (4, 4)).T[:3, 3] == pytest.approx([-0.25, 0, 0])
    assert np.reshape(rings[1]["matrix"], (4, 4)).T[1:3, 3] == pytest.approx([0, 0.05])
    assert [accessor["count"] for accessor in document["accessors"]] == [48 * 24, 3 * 2304]
    page.evaluate("contactdView.bodies.hidden.add(1)")
    assert [node["name"] for node in saved()["nodes"][1:]] == ["ring 2"]


def test_settings_are_changed(tab):
    script = two_rings()
    script.more["/v1/scenes/1"] = {"id": 1, "method": "exact", "running_method": "exact", "revision": 4, "resolution": None, "margin": 0,
                                   "patches": False, "stiffness": 1e5}
    with page_server(script) as url:
        tab.page.goto(f"{url}/#scene/1")
        tab.page.click("summary:has-text('Show and change')")
        tab.until_text("#settings-revision", "Revision 4")
        tab.page.fill("#setting-margin", "0.01")
        tab.page.fill("#setting-resolution", "64, 64, 32")
        tab.page.check("#setting-patches")
        tab.page.click("#settings button[type=submit]")
        tab.until_text("#settings-note", "changed:")
        assert script.sent == [("/v1/scenes/1", {"margin": 0.01, "resolution": [64, 64, 32], "patches": True})]
        tab.until_text("#settings-revision", "Revision 5")
        tab.page.fill("#setting-margin", "much")
        tab.page.click("#settings button[type=submit]")
        tab.until_text("#settings-note", 'margin: "much" is no number')
        script.refusal = (403, {"title": "forbidden", "detail": "the role viewer changes nothing", "field": "margin"})
        tab.page.fill("#setting-margin", "0.02")
        tab.page.click("#settings button[type=submit]")
        tab.until_text("#settings-note", "the role viewer changes nothing")
        assert len(script.sent) == 2
        tab.page.goto("about:blank")


def history(n: int) -> dict:
    return {"interval_s": 1, "time": [1e9 + i for i in range(n)], "series": {
        "steps_per_s": [100 + i for i in range(n)], "latency_p50_ms": [None] * (n // 2) + [2.0] * (n - n // 2),
        "latency_p99_ms": [None] * (n // 2) + [9.0] * (n - n // 2), "queue": [0] * n, "memory_bytes": [1 << 20] * n, "running_steps": [1] * n,
        "phases_ms": {"broadphase": [1.0] * n, "contact": [3.0] * n}, "principals": {"alice": [60] * n, "bob": [40] * n}}}


def test_graphs(tab):
    script = two_rings()
    script.more["/v1/history"] = history(60)
    with page_server(script) as url:
        tab.page.goto(f"{url}/#graphs")
        tab.until("() => document.querySelectorAll('#graphs-list svg').length === 6", "six graphs")
        label = tab.page.locator("#graphs-list svg").nth(0).get_attribute("aria-label")
        assert label == "Steps per second. steps/s: 159 now, at most 159"
        tab.until_text("#graphs-list", "p99: 9 ms now")
        curve = tab.page.locator("#graphs-list svg").nth(1).locator("path").nth(0).get_attribute("d")
        assert curve.count("M") == 1 and curve.count("L") == 29, "nothing is drawn where nothing was measured"
        tab.page.select_option("#graphs-seconds", "60")
        wait_until(lambda: "/v1/history?seconds=60" in script.requests, "the last minute to be asked for")
        script.more["/v1/history"] = history(1)
        tab.until_text("#graphs-note", "has just started")


# ---- two meshes tried ----


def volumes(tab: Tab) -> dict[str, str]:
    """By method, as the table has them."""
    return dict(tab.page.evaluate("() => [...document.querySelectorAll('#try-results tr')].map((r) => [r.cells[0].innerText, r.cells[1].innerText])"))


def until_volumes(tab: Tab, good) -> None:
    wait_until(lambda: len(volumes(tab)) == 4 and all(good(v) for v in volumes(tab).values()), "the volumes of four methods")


def is_quarter(volume: str) -> bool:
    return volume.startswith("0.") and float(volume) == pytest.approx(0.25, rel=0.1)


@pytest.fixture
def tried(tab, server, tmp_path):
    """A tab that shows two boxes, whose files were chosen, and that the server has."""
    box_file = tmp_path / "box.obj"
    box_file.write_bytes(obj(*box()))
    for name in "ab":
        tab.page.goto(f"{server.http}/#try")
        tab.page.set_input_files(f"#file-{name}", box_file)
        tab.until_text(f"#slot-{name} .note", "12 triangles")
    tab.page.fill("#b-at-x", "0.75")
    until_volumes(tab, is_quarter)
    yield tab


def test_two_meshes_are_tried_by_each_method(tried):
    assert list(volumes(tried)) == ["ldi", "exact", "ebpi", "voxtree"] and volumes(tried)["exact"] == "0.25"
    tried.until("() => window.contactdTry?.bodies.instances.size === 1 && contactdTry.drawn > 1", "a picture")
    pixels = tried.pixels("#try-canvas")
    assert share(pixels, COLORS["blue"]) > 0.005 and share(pixels, COLORS["orange"]) > 0.005
    tried.until("() => contactdTry.contacts.surface.visible", "the contact surface of exact")
    assert share(tried.pixels("#try-canvas"), (0x21, 0x91, 0x8C)) > 0.002
    # The tip of the arrow along x of the second box, dragged away from the first.
    tip = tried.page.evaluate("() => contactdTry.project([0.75 + 0.35 * Math.sqrt(3) * 0.9, 0, 0])")
    further = tried.page.evaluate("() => contactdTry.project([1.75 + 0.35 * Math.sqrt(3) * 0.9, 0, 0])")
    canvas = tried.page.locator("#try-canvas").bounding_box()
    tried.page.mouse.move(canvas["x"] + tip[0], canvas["y"] + tip[1])
    tried.page.mouse.down()
    tried.page.mouse.move(canvas["x"] + further[0], canvas["y"] + further[1], steps=4)
    tried.page.mouse.up()
    assert float(tried.page.input_value("#b-at-x")) == pytest.approx(1.75, abs=0.02)
    until_volumes(tried, lambda volume: volume == "0")
    assert tried.page.input_value("#b-at-y") == "0"


def test_a_trial_s_link_and_programs(tried, chromium, server, tmp_path):
    again = Tab(chromium)
    again.page.goto(tried.page.get_attribute("#try-link", "href"))
    until_volumes(again, is_quarter)
    assert again.page.input_value("#b-at-x") == "0.75"
    again.context.close()
    names = {name: tried.page.locator(f"#code-{name} pre").text_content() for name in ("Python", "C", "curl")}
    # What the page says is run as it stands, beside the box's file.
    python = names["Python"].replace("contactd.connect()", f"contactd.connect({server.stream!r})")
    ran = subprocess.run([sys.executable, "-c", python], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.startswith("0.25 ")
    if shutil.which("curl"):
        ran = subprocess.run(["sh", "-c", names["curl"]], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert '"volume":0.25' in ran.stdout.replace(" ", "")
    (tmp_path / "overlap.c").write_text(names["C"].replace("contactd_settings_init", f'options.server = "{server.stream}";\n    contactd_settings_init', 1))
    command = [*CC, "-std=c17", f"-I{ROOT}", f"-I{ROOT}/client_c", "overlap.c", "-o", "overlap", f"-L{BUILD}", "-lcontactd", f"-Wl,-rpath,{BUILD}"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE)
    ran = subprocess.run(["./overlap"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.startswith("0.25 m^3")


def test_a_file_that_is_refused(tab, server, tmp_path):
    vertices, triangles = box()
    tab.page.goto(f"{server.http}/#try")
    (tmp_path / "note.obj").write_text("this is no mesh")
    tab.page.set_input_files("#file-a", tmp_path / "note.obj")
    tab.until_text("#slot-a .note", "note.obj: ")
    assert tab.page.locator("#slot-a button").count() == 0, "no repair helps"
    # Dropped, and open at the top.
    data = tab.page.evaluate_handle("""(text) => { const data = new DataTransfer();
        data.items.add(new File([text], "open.obj")); return data; }""", obj(vertices, triangles[:-2]).decode())
    tab.page.dispatch_event("#slot-a", "drop", {"dataTransfer": data})
    tab.until_text("#slot-a .note", "open.obj: ")
    tab.page.click("#slot-a button:has-text('hull')")
    tab.until_text("#slot-a .note", "closed by its hull")


# ---- the API's page ----


def test_operations_are_found_and_tried(tab, server):
    page = tab.page
    page.goto(f"{server.http}/docs#openScene")
    tab.until_text("#openScene", "Try it")
    assert page.locator(".entry").count() == sum(m != "parameters" for item in OPENAPI["paths"].values() for m in item)
    page.click("#openScene button")
    tab.until_text("#openScene [role=status]", '"name": "first"')
    assert "201 Created" in tab.text("#openScene [role=status]")
    page.fill("#filter", "stats")
    assert page.locator(".entry:visible").count() == 1
    page.fill("#filter", "")
    page.click("#getStats > summary")
    page.fill("#getStats-scene", "99999")
    page.click("#getStats button")
    tab.until_text("#getStats [role=status]", "404")
    page.click("#getStats summary:has-text('200 ok')")
    tab.until_text("#getStats .properties", "sequence integer, from 0")
    example = tab.text("#getStats details pre")
    assert '"last": {\n' in example and '"volume": 0.0703125' in example
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click("#drainServer > summary")
    page.click("#drainServer button")
    assert page.locator("#drainServer [role=status] *").count() == 0, "it asks before it does what cannot be undone"


# ---- what goes wrong ----


def test_a_scene_that_is_closed(watched):
    watched.script.closed = "its owner closed it"
    watched.tab.until_text("#live-state", "scene 1: its owner closed it")
    watched.script.closed = None
    watched.tab.page.wait_for_timeout(1200)
    assert watched.tab.text("#live-state") == "scene 1: its owner closed it"


def test_a_server_that_ends_and_whose_clients_come_back_later(watched):
    """Its scene is missing for a while. It is gone only once the page was seen to say why the stream ended: it says so again
    after each attempt, and waits longer each time, so a slow machine sees it too."""
    tab, script = watched.tab, watched.script
    script.again, script.closed = True, "the server is shutting down"
    tab.until_text("#live-state", "the server is shutting down; trying again")
    script.gone = True
    tab.until_text("#live-state", "there is no scene 1; trying again")
    script.closed, script.gone = None, False
    tab.until_text("#live-state", lambda text: text == "live")


def test_a_role_that_may_not_look(tab):
    script = two_rings()
    script.refusal = (403, {"title": "forbidden", "detail": "the role monitor may not look at scenes of others; ask for admin"})
    with page_server(script) as url:
        tab.page.goto(f"{url}/#scene/1")
        tab.until_text("#live-state", "the role monitor may not look")


def test_a_server_that_starts_again(tab):
    port, script = free_port(), two_rings()
    with page_server(script, port) as url:
        tab.page.goto(f"{url}/#scene/1")
        tab.until_text("#live-state", "live")
    tab.until_text("#live-state", "trying again")
    with page_server(script, port):
        tab.until_text("#live-state", lambda text: text == "live")
        tab.until("() => contactdView.bodies.instances.size === 1", "its bodies")
        tab.page.goto("about:blank")


def test_no_webgl(tab):
    tab.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    with page_server(two_rings()) as url:
        tab.page.goto(f"{url}/#scene/1")
        tab.until_text("#view-note", "no WebGL, so this is a picture that the server draws")
        tab.until("() => document.getElementById('picture').naturalWidth > 0", "the server's picture")
        tab.until("() => document.querySelectorAll('#bodies tbody tr').length === 3", "the list of bodies")
        assert not tab.page.is_visible("#canvas")
    tab.errors[:] = [error for error in tab.errors if "WebGL" not in error]


def test_a_thousand_scenes(tab):
    script = two_rings()
    script.scenes = 1000
    with page_server(script) as url:
        tab.page.goto(url)
        tab.until("() => document.querySelectorAll('#scenes tr').length === 100", "a page of scenes")
        tab.page.click("#scenes-on")
        tab.until_text("#scenes", lambda text: text.startswith("101"))
        tab.until_text("#scenes-note", "100 of 1,000")
        tab.page.fill("#scenes-find", "arm 99")
        tab.until("() => document.querySelectorAll('#scenes tr').length === 6", "arm 99, 991, 993 ... 999")
        tab.page.fill("#scenes-find", "leg")
        tab.until_text("#scenes", "no scene has this in its name")
        tab.page.goto(f"{url}/#scene")
        tab.page.fill("#chosen", "98")
        offered = "() => [...document.querySelectorAll('#known option')].map((option) => option.value).join()"
        tab.until(f"{offered} === '98,980,981,982,983,984,985,986,987,988,989'", "the scenes whose number begins with 98")
        tab.page.fill("#chosen", "arm 99")
        tab.page.press("#chosen", "Enter")
        tab.until_text("#live-title", "Scene 99")
        tab.page.fill("#chosen", "arm 4")
        tab.page.press("#chosen", "Enter")
        tab.until_text("#chooser-note", '20 or more scenes have "arm 4" in their name')
        tab.page.fill("#chosen", "999")
        tab.page.press("#chosen", "Enter")
        tab.until_text("#live-title", "Scene 999")


# ---- themes, widths, the real server ----


@pytest.mark.parametrize("theme, width", [("light", 1200), ("dark", 390)])
def test_everybody_can_use_it(chromium, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed").Axe()
    tab = Tab(chromium, color_scheme=theme, viewport={"width": width, "height": 800}, bypass_csp=True)  # axe is put into the page
    script = two_rings()
    script.more["/v1/history"] = history(60)
    with page_server(script) as url:
        for part in ("", "#scene/1", "#graphs", "#try"):
            tab.page.goto(f"{url}/{part}")
            tab.until_text("#state", "ready")
            if part == "#scene/1":
                tab.until("() => window.contactdView?.drawn > 2", "pictures")
                tab.page.click("#hold")
                corner = tab.pixels()[5, 5].mean()
                assert corner > 200 if theme == "light" else corner < 60
            assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"
            results = axe.run(tab.page).response["violations"]
            assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in results] == []
        tab.page.goto(f"{url}/docs")
        tab.page.locator(".entry").first.wait_for()
        for name in ("getStats", "addMesh"):
            tab.page.click(f"#{name} > summary")
        assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "the API's page is wider than the screen"
        results = axe.run(tab.page).response["violations"]
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in results] == []
        tab.page.goto("about:blank")
    tab.context.close()


def test_a_simulation_is_watched(tab, server):
    """What the server itself sends: a box that moves on a floor, a soft one, contacts, forces, and the end."""
    with contactd.connect(server.stream, timeout=PATIENCE) as client:
        scene = client.open_scene(law="pressure", max_points=4)
        vertices, triangles = (np.array(part, float) for part in box())
        mesh = client.register_mesh(vertices, triangles.astype(np.uint32))
        scene.add_half_space((0, 0, 1), 0.0, friction=0.5)
        rigid = scene.add_body(mesh, pose=np.eye(4), modulus=1e6)
        soft = scene.add_body(mesh, kind="deformable", modulus=1e6)
        stop = threading.Event()

        def simulate() -> None:
            n = 0
            while not stop.wait(0.02):
                n += 1
                pose = np.eye(4)
                pose[:3, 3] = [0.3 * np.sin(n / 10), 0, 0.45]
                scene.step(poses={rigid: pose}, positions={soft: vertices + [0.8, 0, 0.6 + 0.1 * np.sin(n / 10)]},
                           velocities={rigid: np.zeros(6)}, want=("frame", "forces", "surface", "points"))

        simulator = threading.Thread(target=simulate)
        simulator.start()
        try:
            tab.page.goto(f"{server.http}/#scene/{scene.id}")
            tab.until_text("#live-facts", "3 bodies, 24 triangles")
            tab.until_text("#legend", lambda text: "Pa" in text and "N" in text)
            tab.until("() => document.querySelectorAll('#bodies tbody tr').length === 3", "the list of bodies")
            tab.until_text("#frame", lambda text: int(text.split(", ")[1].split()[0]) >= 2)
            assert tab.text("#live-state") == "live"
            tab.page.uncheck("#through")
            tab.until("() => contactdView.bodies.box().max.z > 1.05", "the soft body where its positions are")
            pixels = tab.pixels()
            assert share(pixels, COLORS["orange"]) > 0.005 and share(pixels, (0xE0, 0x31, 0x31)) > 0.0002
            where = tab.page.evaluate("() => contactdView.bodies.box().min.x")
            tab.until(f"() => Math.abs(contactdView.bodies.box().min.x - ({where})) > 0.01", "the box to move")
        finally:
            stop.set()
            simulator.join()
        scene.close()
        tab.until_text("#live-state", f"scene {scene.id}: the scene was closed")


def test_the_server_s_own_page(tab, server):
    """Every file of the page is in the program, and its policy lets it run."""
    tab.page.goto(server.http)
    tab.until_text("#state", "ready")
    tab.until_text("#status", "contactd")
    tab.page.goto(f"{server.http}/#graphs")
    tab.until("() => document.querySelectorAll('#graphs-list svg path').length >= 4", "curves of what the server did")
    tab.page.goto(f"{server.http}/#scene/77")
    tab.until_text("#live-state", "scene 77 is not there")
    tab.until("() => window.contactdView !== undefined", "the modules of the view")
