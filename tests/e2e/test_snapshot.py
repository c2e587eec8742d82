"""Pictures of scenes: over HTTP, by contactctl, by the Python client."""

from __future__ import annotations

import os
import pty
import subprocess

import contactd
import numpy as np
import pytest
from contactd import errors
from conftest import BUILD, CONTACTCTL, SLOW
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api
from png import hues, read_png

DRAWS = "CT_HAVE_EGL" in (BUILD / "flags").read_text()
drawn = pytest.mark.skipif(not DRAWS, reason="this build has no EGL")
SMALL = {"width": 200, "height": 150}


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        yield client


@pytest.fixture
def scene(client):
    """Two unit boxes that have a cube of half the size around (0.25, 0.25, 0.25) in common."""
    box = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(resolution=16)
    scene.add_body(box, pose=np.eye(4))
    scene.add_body(box, pose=moved(0.5, 0.5, 0.5))
    yield scene
    scene.close()


def get(server, path: str, status: int = 200):
    """The body of an answer; of a problem, what it says."""
    answer = Api(server.http, timeout=60 * SLOW)("GET", path)
    assert answer.status == status, (answer.status, answer.body[:300])
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.body if status == 200 else answer.json


@pytest.fixture
def ctl(server, binaries):
    def run(*arguments, expect=0):
        command = [binaries / "contactctl", "--server", server.stream, "--timeout", str(60 * SLOW), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=90 * SLOW)
        assert done.returncode == expect, (done.returncode, done.stderr)
        return done.stdout if expect == 0 else done.stderr.decode()

    return run


@drawn
def test_http(server, scene):
    before = scene.info()
    pixels = read_png(get(server, f"/v1/scenes/{scene.id}/snapshot.png?width=320&height=200&background=ffffff"))
    assert pixels.shape == (200, 320, 3)
    found = hues(pixels[:130])  # the legend stands below
    assert all((found == hue).sum() > 50 for hue in (1, 2, 3))
    assert (pixels[0] == 255).all() and (pixels[:, 0] == 255).all()  # what is shown leaves the edge free
    after = scene.info()
    assert {**after, "bytes": 0} == {**before, "bytes": 0}  # a look is no step


@drawn
def test_the_three_directions(scene):
    """Straight along an axis one sees the ends of the rays along it, in their colour, and nothing of the others'."""
    eyes = {1: (9, 0.25, 0.25), 2: (0.25, 9, 0.25), 3: (0.25, 0.25, 9)}
    for hue, eye in eyes.items():
        up = (0, 1, 0) if hue == 3 else (0, 0, 1)
        pixels = read_png(scene.snapshot(eye=eye, target=(0.25, 0.25, 0.25), up=up, field_of_view=15, show="samples", **SMALL))
        found = hues(pixels)
        assert found[75, 100] == hue  # the middle of the contact is the middle of the picture
        assert (found == hue).sum() > 500 and not ((found != 0) & (found != hue)).any()
        # 0.5 m at 8.5 m from the eye, which sees 2 tan(7.5 deg) 8.5 m over 150 rows
        rows = np.flatnonzero((found == hue).any(1))
        assert rows[-1] - rows[0] + 1 == pytest.approx(0.5 / (2 * np.tan(np.radians(7.5)) * 8.5) * 150, abs=2)


@drawn
def test_one_contact(client, scene):
    far = scene.add_body(client.register_mesh(*icosphere(1.0, 2)), pose=moved(6, 0, 0))
    a, b, _ = scene.bodies
    assert far in scene.bodies
    whole, close = (hues(read_png(scene.snapshot(contact=c, show=("bodies", "samples"), **SMALL))) for c in (None, (a, b)))
    assert (close > 0).sum() > 4 * (whole > 0).sum() > 0
    assert close[75, 100] > 0
    # Two that do not touch are shown all the same.
    apart = read_png(scene.snapshot(contact=(a, far), show=("bodies", "samples"), **SMALL))
    assert not hues(apart).any() and (apart < 250).any()
    scene.remove_body(far)
    with pytest.raises(contactd.ContactdError):
        scene.snapshot(contact=(a, far))


@drawn
def test_of_any_size(client):
    """The framing had a length of 1e-6 m, and float32 no area of 1e-48 or 1e48 m^2: pictures were empty, flat or black."""
    def picture(exponent):
        with client.open_scene(resolution=16) as scene:
            for vertices, triangles, x in ((*UNIT_BOX, 0.0), (*icosphere(0.6, 2), 0.75)):
                mesh = client.register_mesh(np.ldexp(vertices, exponent), triangles)
                scene.add_body(mesh, pose=moved(np.ldexp(x, exponent)))
            return read_png(scene.snapshot(show=("bodies", "samples"), **SMALL)).astype(float)

    expected = picture(0)
    assert (expected < 250).any(axis=2).mean() > 0.2
    for exponent in (-90, -40, 40, 90):
        assert np.abs(picture(exponent) - expected).mean() < 0.1


@drawn
def test_a_plane_far_below_hides_nothing(client):
    with client.open_scene(method="exact") as scene:
        scene.add_body(client.register_mesh(*icosphere(0.6, 2)), pose=np.eye(4))
        alone = (read_png(scene.snapshot(**SMALL)) < 250).any(axis=2)
        scene.add_half_space((0, 0, 1), -1e9)
        assert (read_png(scene.snapshot(**SMALL)) < 250).any(axis=2)[alone].mean() > 0.99 and alone.mean() > 0.2


@drawn
def test_positions_are_those_of_the_last_step(client):
    vertices, triangles = UNIT_BOX
    scene = client.open_scene(resolution=8)
    mesh = client.register_mesh(vertices, triangles)
    soft = scene.add_body(mesh)
    scene.add_body(mesh, pose=moved(0.25))
    view = {"eye": (0, -20, 0), "target": (0, 0, 0), "show": "samples", **SMALL}
    here = hues(read_png(scene.snapshot(**view)))
    scene.step(positions={soft: vertices + (2, 0, 0)})
    assert here.any() and not hues(read_png(scene.snapshot(**view))).any()
    scene.step(positions={soft: vertices + (0.125, 0, 0.125)})
    assert hues(read_png(scene.snapshot(**view))).any()
    scene.close()


@drawn
def test_the_same_picture_again(scene):
    assert scene.snapshot(**SMALL) == scene.snapshot(**SMALL)
    assert scene.snapshot(**SMALL) != scene.snapshot(azimuth=10, **SMALL)


@drawn
def test_resolution_and_opacity(scene):
    coarse = read_png(scene.snapshot(resolution=1, show="samples", **SMALL))
    fine = read_png(scene.snapshot(show="samples", **SMALL))
    assert (coarse != fine).any() and hues(coarse).any()
    solid = read_png(scene.snapshot(opacity=1, show="bodies", background=(1, 1, 1, 0), **SMALL))
    assert solid.shape[2] == 4 and solid[75, 100, 3] == 255 and solid[0, 0, 3] == 0
    assert read_png(scene.snapshot(background=(0, 0, 0), **SMALL))[0, 0].tolist() == [0, 0, 0]


@drawn
def test_an_empty_scene(client, server):
    scene = client.open_scene()
    pixels = read_png(scene.snapshot(**SMALL))
    assert (pixels[:80] == 255).all() and len(set(hues(pixels).ravel())) == 4  # the legend alone
    assert (read_png(scene.snapshot(show="bodies", **SMALL)) == 255).all()
    scene.close()


@drawn
def test_in_parts(scene):
    """A picture larger than what is drawn at once has no seams: it is the small one, enlarged."""
    large = read_png(scene.snapshot(width=1200, height=60, show="samples", zoom=0.5)).astype(float)
    small = read_png(scene.snapshot(width=400, height=20, show="samples", zoom=0.5)).astype(float)
    assert np.abs(large.reshape(20, 3, 400, 3, 3).mean((1, 3)) - small).mean() < 2


# ---- what methods find ----


@drawn
def test_patches_have_colors(client, ctl, server, tmp_path):
    """Each patch's colour is where its part of the bodies is seen, by every way to ask for it."""
    box = client.register_mesh(*UNIT_BOX)
    bar = client.register_mesh(UNIT_BOX[0] * (6, 0.5, 0.5), UNIT_BOX[1])
    comb = client.register_mesh(np.concatenate([UNIT_BOX[0] - (1.5, 0, 0), UNIT_BOX[0] * 0.8 + (1.5, 0, 0)]),
                                np.concatenate([UNIT_BOX[1], UNIT_BOX[1] + 8]))
    scene = client.open_scene(method="exact", patches=True)
    scene.add_body(comb, pose=np.eye(4))
    scene.add_body(bar, pose=np.eye(4))
    patches = scene.step().contacts
    assert len(patches) == 2 and box
    view = {"eye": (0, -40, 0), "target": (0, 0, 0), "field_of_view": 8, **SMALL}
    png = scene.snapshot(show="contacts", **view)
    pixels = read_png(png).astype(int)
    per_metre = 75 / (np.tan(np.radians(4)) * 39.75)  # where the bar's side is
    for patch, (strong, weak) in zip(patches, [(0, 2), (2, 0)]):  # the first is orange, the second blue
        column, row = 100 + patch.center[0] * per_metre, 75 - patch.center[2] * per_metre
        for dx, dz in [(-0.25, -0.15), (0.25, 0.15), (-0.25, 0.15)]:
            at = pixels[round(row + dz * per_metre), round(column + dx * per_metre)]
            assert at[strong] > at[weak] + 30, (patch.center, at)
    assert (pixels[75, 100] == 255).all() and (pixels[20] == 255).all()  # between the two, and above
    query = "show=contacts&eye=0,-40,0&target=0,0,0&field_of_view=8&width=200&height=150"
    assert get(server, f"/v1/scenes/{scene.id}/snapshot.png?{query}") == png
    out = tmp_path / "patches.png"
    ctl("snapshot", scene.id, "-o", out, "--show", "contacts", "--eye", "0 -40 0", "--target", "0 0 0", "--field-of-view", 8,
        "--width", 200, "--height", 150)
    assert out.read_bytes() == png
    assert scene.snapshot(show=("contacts", "gradients"), **view) != png
    scene.close()


@drawn
def test_contact_surface(client, ctl, server, tmp_path):
    """A ball in a slab: red in the middle, where the pressure is largest, pale at the rim, nothing beyond it."""
    ball, slab = client.register_mesh(*icosphere(1.0, 4)), client.register_mesh(UNIT_BOX[0] * (4, 4, 1), UNIT_BOX[1])
    scene = client.open_scene(law="pressure")
    scene.add_body(slab, pose=moved(0, 0, -0.5))
    scene.add_body(ball, pose=moved(0, 0, 0.8))
    view = {"eye": (0, 0, 40), "target": (0, 0, 0), "up": (0, 1, 0), "field_of_view": 3, **SMALL}
    png = scene.snapshot(show="surface", **view)
    pixels = read_png(png).astype(int)
    per_metre = 75 / (np.tan(np.radians(1.5)) * 40)
    rim = round(0.6 * per_metre)  # sqrt(1 - 0.8^2) m
    assert pixels[75, 100][0] > pixels[75, 100][2] + 80  # red
    assert pixels[75, 100 + rim - 4][2] > pixels[75, 100][2] + 60 and (pixels[75, 100 + rim + 4] == 255).all()
    query = "show=surface&eye=0,0,40&target=0,0,0&up=0,1,0&field_of_view=3&width=200&height=150"
    assert get(server, f"/v1/scenes/{scene.id}/snapshot.png?{query}") == png
    out = tmp_path / "surface.png"
    ctl("snapshot", scene.id, "-o", out, "--show", "surface", "--eye", "0 0 40", "--target", "0 0 0", "--up", "0 1 0",
        "--field-of-view", 3, "--width", 200, "--height", 150)
    assert out.read_bytes() == png
    scene.configure(law="volume")  # by depth, which the pressure is proportional to
    plain = read_png(scene.snapshot(show="surface", **view)).astype(int)
    assert abs(plain - pixels).max() <= 2
    scene.configure(method="ldi")
    with pytest.raises(errors.InvalidArgumentError, match="surface.*ldi"):
        scene.snapshot(show="surface")
    scene.close()


@drawn
def test_rays(client, ctl, server, tmp_path):
    """The tiles of EBPI's views: seen along z, that view's are where the bodies meet, and edges are redder."""
    box = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(method="ebpi", tolerance_rel=0.01)
    scene.add_body(box, pose=np.eye(4))
    turned = np.eye(4)
    turned[:3, :3] = [[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]]
    turned[:3, 3] = 0.5, 0.4, 0.5
    scene.add_body(box, pose=turned)
    view = {"eye": (0.25, 0.2, 30), "target": (0.25, 0.2, 0), "up": (0, 1, 0), "field_of_view": 3, **SMALL}
    png = scene.snapshot(show="rays_z", **view)
    pixels = read_png(png).astype(int)
    assert (pixels[75, 100] < 250).any() and (pixels[0] == 255).all() and (pixels[:, 0] == 255).all()
    assert (pixels[..., 0] > pixels[..., 2] + 60).sum() > 50  # yellow to red
    assert get(server, f"/v1/scenes/{scene.id}/snapshot.png?show=rays_z&eye=0.25,0.2,30&target=0.25,0.2,0&up=0,1,0"
               "&field_of_view=3&width=200&height=150") == png
    out = tmp_path / "rays.png"
    ctl("snapshot", scene.id, "-o", out, "--show", "rays,bodies", "--width", 200, "--height", 150)
    assert out.read_bytes() == scene.snapshot(show=("bodies", "rays_x", "rays_y", "rays_z"), **SMALL)
    scene.configure(method="exact", tolerance_rel=0)
    with pytest.raises(errors.InvalidArgumentError, match="ldi|exact"):
        scene.snapshot(show="rays")
    scene.close()


@drawn
def test_voxel_trees(client, ctl, server, tmp_path):
    """Cubes of a level cover the bodies; normals are red lines, the reduced ones green arrows."""
    scene = client.open_scene(method="voxtree", voxel_level=4, level=3)
    box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(0.6, 3))
    scene.add_body(ball, pose=np.eye(4))
    scene.add_body(box, pose=moved(0.8, 0.2, 0.1))
    nodes = scene.snapshot(show="nodes", **SMALL)
    bodies = read_png(scene.snapshot(show="bodies", opacity=1, **SMALL))
    covered = (read_png(nodes) < 250).any(2)
    assert covered[(bodies < 250).any(2)].mean() > 0.98 and covered.mean() < 0.9
    assert get(server, f"/v1/scenes/{scene.id}/snapshot.png?show=nodes&width=200&height=150") == nodes
    found = hues(read_png(scene.snapshot(show="normals", **SMALL)))
    assert (found == 1).sum() > 20 and (found == 2).sum() > 50  # red, green
    out = tmp_path / "normals.png"
    ctl("snapshot", scene.id, "-o", out, "--show", "normals,nodes", "--width", 200, "--height", 150)
    assert out.read_bytes() == scene.snapshot(show=("nodes", "normals"), **SMALL)
    scene.close()


def test_words_that_do_not_fit(client, server, ctl, tmp_path):
    """A word that the scene's method does not have is refused, and the message says what it has."""
    scene = client.open_scene(method="voxtree", voxel_level=4)
    box = client.register_mesh(*UNIT_BOX)
    scene.add_body(box, pose=np.eye(4))
    scene.add_body(box, pose=moved(0.5, 0.5, 0.5))
    with pytest.raises(errors.InvalidArgumentError, match="gradients.*voxtree.*bodies,samples,axes"):
        scene.snapshot(show="gradients")
    problem = get(server, f"/v1/scenes/{scene.id}/snapshot.png?show=bodies,contacts", 400)
    assert problem["field"] == "show" and "contacts" in problem["detail"] and "voxtree" in problem["detail"]
    assert "voxtree" in ctl("snapshot", scene.id, "-o", tmp_path / "x.png", "--show", "contacts", expect=3)
    scene.close()


@pytest.mark.parametrize("query, status, field", [
    ("width=0", 422, "width"), ("height=4097", 422, "height"), ("width=1e9", 422, "width"), ("width=2049&height=2048", 422, "width"), ("width=-5", 400, "width"),
    ("width=64.5", 400, "width"), ("width=", 400, "width"), ("width=64&width=64", 400, "width"),
    ("contact=1", 400, "contact"), ("contact=1,1", 400, "contact"), ("contact=0,1", 400, "contact"),
    ("contact=1,2,3", 400, "contact"), ("contact=1,77", 404, "body"), ("show=", 400, "show"), ("show=all", 400, "show"),
    ("resolution=4097", 422, "resolution"), ("azimuth=nan", 400, "azimuth"), ("azimuth=inf", 400, "azimuth"),
    ("azimuth=1e999", 400, "azimuth"), ("elevation=91", 422, "elevation"), ("up=0,0,0", 400, "up"), ("up=0,1", 400, "up"),
    ("eye=1,2,3&target=1,2,3", 400, "eye"), ("eye=1,2,x", 400, "eye"), ("zoom=0", 422, "zoom"), ("zoom=0x1", 400, "zoom"),
    ("field_of_view=180", 422, "field_of_view"), ("opacity=2", 422, "opacity"), ("background=fff", 400, "background"),
    ("background=gggggg", 400, "background"), ("frob=1", 400, "query"), ("%00=1", 400, "query"),
    ("background=%ff%fe%00", 400, "background"), ("up=" + "1" * 500, 400, "up")])
def test_refused_queries(server, scene, query, status, field):
    problem = get(server, f"/v1/scenes/{scene.id}/snapshot.png?{query}", status)
    assert problem["field"] == field and problem["detail"]


def test_refused_scenes_and_methods(server):
    assert get(server, "/v1/scenes/4000000/snapshot.png", 404)["code"] == "NOT_FOUND"
    assert get(server, "/v1/scenes/x/snapshot.png", 404)["code"] == "NOT_FOUND"
    Api(server.http).refused("POST", "/v1/scenes/1/snapshot.png", 405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("options, error", [
    ({"width": 3}, errors.OutOfRangeError), ({"zoom": float("inf")}, contactd.ContactdError),
    ({"show": "all"}, errors.InvalidArgumentError), ({"contact": 3}, errors.InvalidArgumentError), ({"up": (0, 1)}, errors.WrongLengthError),
    ({"up": (0, 0, 0)}, errors.InvalidArgumentError), ({"background": (2, 0, 0)}, errors.OutOfRangeError)])
def test_python_refusals(scene, options, error):
    with pytest.raises(error):
        scene.snapshot(**options)


# ---- without OpenGL ----


def test_without_egl(make_server):
    """A driver that cannot be found (or a build without EGL): steps go on, pictures say what is missing."""
    server = make_server(env={"__EGL_VENDOR_LIBRARY_DIRS": "/nonexistent", "LIBGL_DRIVERS_PATH": "/nonexistent"})
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        scene = client.open_scene(resolution=8)
        mesh = client.register_mesh(*UNIT_BOX)
        scene.add_body(mesh, pose=np.eye(4))
        scene.add_body(mesh, pose=moved(0.5))
        with pytest.raises(errors.UnsupportedError) as caught:
            scene.snapshot()
        problem = get(server, f"/v1/scenes/{scene.id}/snapshot.png", 501)
        assert problem["code"] == "UNSUPPORTED" and problem["detail"] in str(caught.value)
        assert "libegl" in problem["detail"] if DRAWS else "EGL=1" in problem["detail"]
        assert scene.step().contacts[0].volume == pytest.approx(0.5)


# ---- contactctl ----


@drawn
def test_contactctl(ctl, scene, tmp_path):
    a, b = scene.bodies
    out = tmp_path / "picture.png"
    assert ctl("snapshot", scene.id, "-o", out, "--width", 200, "--height", 150) == b""
    assert out.read_bytes() == scene.snapshot(**SMALL) == ctl("snapshot", scene.id, "--width=200", "--height=150", "-o", "-")
    options = dict(contact=(a, b), show=("samples", "axes"), resolution=4, azimuth=30, elevation=-10, up=(0, 1, 0), zoom=2,
                   field_of_view=50, opacity=0.5, background=(1, 0, 0, 1))
    ctl("snapshot", scene.id, "-o", out, "--width", 200, "--height", 150, "--contact", f"{a.id} {b.id}", "--show",
        "samples,axes", "--resolution", 4, "--azimuth", 30, "--elevation", -10, "--up", "0 1 0", "--zoom", 2,
        "--field-of-view", 50, "--opacity", 0.5, "--background", "ff0000")
    assert out.read_bytes() == scene.snapshot(**options, **SMALL)
    ctl("snapshot", scene.id, "-o", out, "--eye", "5 5 5", "--target", "0,0,0", "--width", 200, "--height", 150)
    assert out.read_bytes() == scene.snapshot(eye=(5, 5, 5), target=(0, 0, 0), **SMALL)
    assert list(tmp_path.iterdir()) == [out]
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("arguments, says", [
    (("x",), "no scene"), (("1", "--width", "wide"), "--width"), (("1", "--contact", "1"), "--contact"),
    (("1", "--show", "all"), "--show"), (("1", "--background", "red"), "--background"), (("1", "--up", "1 2"), "--up"),
    (("1", "--pose-a", "1"), "--pose-a"), ((), "takes"), (("1", "--eye", "1 2 3", "--zoom", "2"), "--eye and --zoom")])
def test_contactctl_usage(ctl, arguments, says):
    assert says in ctl("snapshot", *arguments, "-o", "/dev/null", expect=2)


def test_contactctl_refusals(ctl, scene, tmp_path):
    out = tmp_path / "picture.png"
    assert "width" in ctl("snapshot", scene.id, "-o", out, "--width", 5000, expect=3)
    assert "body 99" in ctl("snapshot", scene.id, "-o", out, "--contact", "98 99", expect=3).replace("body 98", "body 99")
    assert "NOT_FOUND" in ctl("snapshot", 4000000, "-o", out, expect=3)
    assert list(tmp_path.iterdir()) == []
    if DRAWS:
        nowhere = ctl("snapshot", scene.id, "-o", tmp_path / "no" / "picture.png", expect=2)
        assert "picture.png" in nowhere and "No such file" in nowhere


def test_contactctl_spares_the_terminal(server, binaries, scene):
    ours, theirs = pty.openpty()
    try:
        for arguments in ((), ("-o", "-")):
            done = subprocess.run([*CONTACTCTL, "--server", server.stream, "snapshot", str(scene.id), *arguments],
                                  stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=30 * SLOW)
            assert done.returncode == 2 and "-o FILE" in done.stderr
    finally:
        os.close(ours)
        os.close(theirs)
