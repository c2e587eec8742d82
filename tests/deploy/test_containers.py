"""The images in docker/: built by Buildah on a base that mmdebstrap makes, and run as an orchestrator runs them.

No registry of images is needed. Buildah's isolation is chroot, which works inside other containers. It shares the host's
network, so a port that the server listens on inside is published as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from typing import Any, Iterator

import needs
import pytest

needs.tools("mmdebstrap", "buildah", "unshare", "setpriv", as_root=True)

import conftest  # noqa: E402
import contactd  # noqa: E402
from geometry import UNIT_BOX, moved  # noqa: E402

DOCKER = needs.ROOT / "docker"
WORK = needs.ROOT / "build" / "containers"
MB = 1_000_000
MAX_IMAGE_MB = 60  # on top of the base
USER = 65532


class Buildah:
    """Buildah with its storage under WORK, so that nothing of the machine's own images is seen or touched."""

    def __init__(self) -> None:
        self.driver = "overlay"
        if not self._try("from", "--name", "probe", "scratch") or not self._try("mount", "probe"):
            self.driver = "vfs"  # copies every layer: slow, but works on any file system
        self._try("rm", "--all")

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", "--root", str(WORK / self.driver), "--runroot", str(WORK / "run"), "--storage-driver",
                self.driver, *arguments]  # fmt: skip

    def _try(self, *arguments: str) -> bool:
        return subprocess.run(self.command(*arguments), capture_output=True, stdin=subprocess.DEVNULL).returncode == 0

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, text=True, cwd=needs.ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        assert done.returncode == 0, f"buildah {' '.join(arguments)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout.strip()

    def build(self, dockerfile: pathlib.Path, tag: str, *arguments: str) -> str:
        self("bud", "--isolation", "chroot", "--format", "docker", "--file", str(dockerfile), "--tag", tag, *arguments, ".")
        return tag

    def config(self, image: str) -> dict[str, Any]:
        return json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]


def split_stages(dockerfile: pathlib.Path) -> tuple[str, str, str]:
    """What stands before the build stage, the build stage, and the stages after it."""
    text = dockerfile.read_text()
    head, build, rest = re.split(r"^(?=FROM )", text, maxsplit=2, flags=re.M)
    assert build.startswith("FROM ${BUILD_BASE} AS build\n")
    return head, build, rest


def after_build(dockerfile: pathlib.Path) -> pathlib.Path:
    """The same file with the build stage's image in place of the build stage, which so runs once for all targets."""
    head, _, rest = split_stages(dockerfile)
    path = WORK / (dockerfile.name + ".after-build")
    path.write_text(f"{head}FROM localhost/build AS build\n{rest}")
    return path


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    buildah = Buildah()
    yield buildah
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")
    subprocess.run(["umount", str(WORK / buildah.driver / buildah.driver)], capture_output=True)
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.fixture(scope="module")
def base(buildah) -> str:
    """This machine's distribution, as small as mmdebstrap makes it. A download that fails is tried again, there and in what is
    built on it."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M))
    tar = WORK / "base.tar"
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates",
                           "--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Retries "5"',
                           release["VERSION_CODENAME"], str(tar)], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    assert made.returncode == 0, made.stdout
    buildah("from", "--name", "base", "scratch")
    buildah("add", "--quiet", "base", str(tar), "/")
    buildah("commit", "--quiet", "base", "localhost/base")
    buildah("rm", "base")
    tar.unlink()
    return "localhost/base"


@pytest.fixture(scope="module")
def built(buildah, base) -> str:
    """The image of the build stage: compiled and packed from nothing but the base, without the time that optimizing takes."""
    head, stage, _ = split_stages(DOCKER / "Dockerfile")
    path = WORK / "Dockerfile.build"
    path.write_text(head + stage.replace("WORKDIR /src\n", "WORKDIR /src\nENV OPT=-O0 B=build\n"))
    return buildah.build(path, "localhost/build", "--target", "build", "--build-arg", f"BASE={base}")


@pytest.fixture(scope="module")
def image(buildah, base, built) -> str:
    labels = [x for pair in ("VERSION=1.2.3", "REVISION=abc", "CREATED=2026-01-02T03:04:05Z") for x in ("--build-arg", pair)]
    return buildah.build(after_build(DOCKER / "Dockerfile"), "localhost/contactd", "--build-arg", f"BASE={base}", *labels)


@pytest.fixture
def mounted(buildah, image) -> Iterator[tuple[str, pathlib.Path]]:
    """A container, and where its root lies on this machine."""
    name = buildah("from", image)
    yield name, pathlib.Path(buildah("mount", name))
    buildah("rm", name)


def stored_bytes(root: pathlib.Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def children(pid: int) -> list[int]:
    """All processes below pid."""
    try:
        below = [int(x) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for x in (task / "children").read_text().split()]
    except OSError:
        return []
    return below + [x for child in below for x in children(child)]


def server_below(pid: int) -> int | None:
    for child in children(pid):
        try:
            if os.readlink(f"/proc/{child}/exe").endswith("/usr/local/bin/contactd"):
                return child
        except OSError:
            pass
    return None


class Contained(conftest.Server):
    """A contactd that another program started: `pid` is contactd's own."""

    def __init__(self, folder: pathlib.Path, command: list[str]):
        super().__init__(folder)
        self.command = command

    def run(self) -> "Contained":
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.wait_ready(60)
        return self

    @property
    def inner(self) -> int:
        found = server_below(self.process.pid)
        assert found, self.logs()
        return found

    def end(self) -> int:
        """SIGTERM to the server, as docker stop sends it to process 1: the exit code."""
        os.kill(self.inner, signal.SIGTERM)
        return self.wait(20)


def step_two_boxes(address: str, **keys: str) -> float:
    """The volume of two unit boxes that overlap by a quarter in x."""
    with contactd.connect(address, **keys) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(mesh, pose=moved(0))
        scene.add_body(mesh, pose=moved(0.75))
        (contact,) = scene.step().contacts
        return contact.volume


def make_secrets(folder: pathlib.Path) -> dict[str, str]:
    """A server's key and a list with one simulator in `folder`, which the image's user may read; the client's keys."""
    folder.mkdir()
    public = {}
    for name in "server", "simulator":
        made = subprocess.run([conftest.BUILD / "contactctl", "keys", "new", name], cwd=folder, text=True, check=True,
                              capture_output=True)  # fmt: skip
        (folder / f"{name}.line").write_text(made.stdout)
        public[name] = re.search(r"key=(\S+)", made.stdout)[1]
    (folder / "principals").write_text((folder / "simulator.line").read_text())
    for path in folder.iterdir():
        os.chown(path, USER, USER)
    return {"server_key": public["server"], "client_key": str(folder / "simulator.key")}


def test_the_image_is_small(buildah, image, base):
    sizes = []
    for name in base, image:
        container = buildah("from", name)
        sizes.append(stored_bytes(pathlib.Path(buildah("mount", container))))
        buildah("rm", container)
    added = (sizes[1] - sizes[0]) / MB
    print(f"the image adds {added:.1f} MB to its base of {sizes[0] / MB:.0f} MB")
    assert 1 < added <= MAX_IMAGE_MB


def test_the_image_tells_how_it_is_run(buildah, image):
    config = buildah.config(image)
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["/usr/local/bin/contactd"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "contactd-is-ready"]
    assert set(config["ExposedPorts"]) == {"5555/tcp", "8080/tcp"}
    labels = {k.removeprefix("org.opencontainers.image."): v for k, v in config["Labels"].items()}
    assert labels["title"] == "contactd" and labels["licenses"] == "MIT" and labels["description"]
    assert (labels["version"], labels["revision"], labels["created"]) == ("1.2.3", "abc", "2026-01-02T03:04:05Z")


def test_the_image_says_what_it_is_made_of(mounted):
    _, root = mounted
    listed = needs.bill((root / "usr/local/share/doc/contactd/contactd.cdx.json").read_text())
    assert {"three.js", "FlatBuffers"} <= set(listed) and "NumPy" not in listed
    libraries = {name for name in listed if ".so" in name}
    assert "libzmq.so.5" in libraries
    for name in libraries:  # the image has the very files; a link may be absolute, and lead out of the root
        (path,) = {path.resolve() for path in root.glob(f"usr/lib*/**/{name}") if path.resolve().is_relative_to(root.resolve())}
        assert hashlib.sha256(path.read_bytes()).hexdigest() == listed[name]["hashes"][0]["content"], name


def test_a_step_inside_through_the_published_port(buildah, mounted, tmp_path):
    """On all addresses of the network, with keys that are mounted into the container."""
    name, _ = mounted
    server = Contained(tmp_path, [])
    keys = make_secrets(tmp_path / "secrets")
    variables = {"STREAM": f"tcp://0.0.0.0:{server.stream_port}", "HTTP": f"127.0.0.1:{server.http_port}",
                 "STREAM_KEY": "/secrets/server.key", "PRINCIPALS": "/secrets/principals"}  # fmt: skip
    environment = [x for key, value in variables.items() for x in ("--env", f"CONTACTD_{key}={value}")]

    def run(*command: str) -> list[str]:
        return buildah.command("run", "--isolation", "chroot", "--cap-drop", "all", "--volume",
                               f"{tmp_path / 'secrets'}:/secrets:ro", *environment, name, "--", *command)  # fmt: skip

    config = buildah.config("localhost/contactd")
    server.command = run(*config["Entrypoint"])
    is_ready = run(*config["Healthcheck"]["Test"][1:])
    assert subprocess.run(is_ready, capture_output=True).returncode == 1  # nothing runs yet
    server.run()
    status = pathlib.Path(f"/proc/{server.inner}/status").read_text()
    assert re.search(rf"^Uid:\s+{USER}\s+{USER}\s", status, re.M) and re.search(r"^CapEff:\s+0+$", status, re.M), status
    assert step_two_boxes(server.stream, **keys) == pytest.approx(0.25, rel=1e-6)
    assert subprocess.run(is_ready, capture_output=True).returncode == 0
    assert server.end() == 0
    assert "finishing what is queued" in server.logs()
    assert subprocess.run(is_ready, capture_output=True).returncode == 1


def test_without_keys_it_does_not_start(buildah, mounted):
    name, _ = mounted
    command = buildah.command("run", "--isolation", "chroot", name, "--", "/usr/local/bin/contactd")
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and "--insecure" in ended.stdout + ended.stderr, ended


def test_as_an_orchestrator_runs_it(mounted, tmp_path):
    """Process 1 of its container, on a read-only root, no capabilities, no new privileges, any user: docker run
    --read-only --cap-drop ALL --security-opt no-new-privileges --user."""
    _, root = mounted
    server = Contained(tmp_path, [])
    server.command = [
        "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-ec",
        'mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; mount -o remount,ro,bind "$0"; '
        'exec chroot "$0" setpriv --reuid 12345 --regid 12345 --clear-groups --bounding-set=-all --inh-caps=-all '
        '--no-new-privs -- /usr/local/bin/contactd "$@"',
        str(root), "--stream", server.stream, "--http", f"127.0.0.1:{server.http_port}",
    ]  # fmt: skip
    server.run()
    status = pathlib.Path(f"/proc/{server.inner}/status").read_text()
    assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.M), status
    assert re.search(r"^CapBnd:\s+0+$", status, re.M) and re.search(r"^NoNewPrivs:\s+1$", status, re.M), status
    mounts = pathlib.Path(f"/proc/{server.inner}/mountinfo").read_text()
    assert re.search(r"^\S+ \S+ \S+ \S+ / ro[, ]", mounts, re.M), mounts
    assert step_two_boxes(server.stream) == pytest.approx(0.25, rel=1e-6)
    assert server.end() == 0
    assert "finishing what is queued" in server.logs()


def test_the_clients_are_artefacts(buildah, built, tmp_path):
    out = tmp_path / "dist"
    buildah("bud", "--isolation", "chroot", "--file", str(after_build(DOCKER / "Dockerfile")), "--target", "clients",
            "--output", str(out), ".")  # fmt: skip
    (wheel,) = out.glob("contactd-*.whl")
    with zipfile.ZipFile(wheel) as contents:
        assert {"contactd/__init__.py", "contactd/contactd.fbs", "contactd/py.typed"} <= set(contents.namelist())
        contents.extractall(tmp_path / "site")
    assert {"libzmq.so.5", "FlatBuffers", "NumPy"} <= set(needs.bill((out / "contactd.cdx.json").read_text()))
    imported = subprocess.run([sys.executable, "-c", "import contactd; print(contactd.__file__)"], text=True,
                              capture_output=True, env={"PYTHONPATH": str(tmp_path / "site")})  # fmt: skip
    assert imported.stdout.strip() == str(tmp_path / "site" / "contactd" / "__init__.py"), imported.stderr
    program = tmp_path / "program.c"
    program.write_text("#include <contactd.h>\nint main(void) { return !contactd_code_text(CONTACTD_OK)[0]; }\n")
    subprocess.run(["cc", "-I", str(out / "include" / "contactd"), str(program), "-L", str(out / "lib"), "-lcontactd",
                    "-o", str(tmp_path / "program")], check=True)  # fmt: skip
    assert subprocess.run([tmp_path / "program"], env={"LD_LIBRARY_PATH": str(out / "lib")}).returncode == 0


def test_the_cuda_file_builds_the_same_server(buildah, base, built):
    """nvcc is in no base that can be made here, so the build stage is the CPU's; all that follows it runs."""
    image = buildah.build(after_build(DOCKER / "Dockerfile.cuda"), "localhost/contactd-cuda", "--build-arg", f"BASE={base}")
    environment = dict(entry.split("=", 1) for entry in buildah.config(image)["Env"])
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "compute" in environment["NVIDIA_DRIVER_CAPABILITIES"].split(",")
