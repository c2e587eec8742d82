"""What `make install` and `make deb` put in place: units that systemd accepts and finds hardened, man pages, packages that
lintian finds nothing in."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import needs
import pytest

import conftest
from conftest import binaries, make_server  # noqa: F401

DEPLOY = needs.ROOT / "deploy"
MAX_EXPOSURE = 20  # tenths, of systemd-analyze security


def make(*arguments: str) -> None:
    """Builds nothing anew: with the switches that the build folder was made with, as far as they matter here."""
    flags = (conftest.BUILD / "flags").read_text()
    cuda = "shim" if "CT_CUDA_SHIM" in flags else "1" if "CT_HAVE_CUDA" in flags else "0"
    compilers = {"CC": flags.split(" -std=")[0], "CXX": re.search(r"/ (\S.*?) -std=c\+\+", flags)[1].split("/ ")[-1]}
    # What was given to the make that runs these tests, such as CUDA_ARCHS.
    given = os.environ.get("MAKEFLAGS", "").partition(" -- ")[2].split()
    switches = [*given, f"CUDA={cuda}", f"EGL={int('CT_HAVE_EGL' in flags)}", f"B={conftest.BUILD.relative_to(needs.ROOT)}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")} | compilers
    done = subprocess.run(["make", *switches, *arguments], cwd=needs.ROOT, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def installed(binaries, tmp_path_factory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("root")
    make("install", f"DESTDIR={root}", "PREFIX=/usr/local")
    return root


def test_all_is_in_place(installed):
    local = installed / "usr" / "local"
    for path in ("bin/contactd", "bin/contactctl", "lib/libcontactd.so", "lib/pkgconfig/contactd.pc",
                 "include/contactd/contactd.h", "share/man/man1/contactd.1", "share/man/man1/contactctl.1",
                 "share/bash-completion/completions/contactctl", "share/zsh/site-functions/_contactctl",
                 "share/fish/vendor_completions.d/contactctl.fish",
                 "lib/systemd/system/contactd.socket", "lib/systemd/system/contactd-http.socket"):  # fmt: skip
        assert (local / path).exists(), path
    unit = (local / "lib/systemd/system/contactd.service").read_text()
    assert "ExecStart=/usr/local/bin/contactd\n" in unit and "EnvironmentFile=-/usr/local/etc/default/contactd\n" in unit
    assert "@" not in re.sub(r"^(#.*|SystemCallFilter=.*)$", "", unit, flags=re.M)


def test_what_an_operator_has_configured_stays(installed):
    defaults = installed / "usr/local/etc/default/contactd"
    defaults.write_text("CONTACTD_DRAIN=3s\n")
    make("install", f"DESTDIR={installed}", "PREFIX=/usr/local")
    assert defaults.read_text() == "CONTACTD_DRAIN=3s\n"


def test_the_defaults_are_options(binaries):
    lines = re.findall(r"^#(CONTACTD_\w+)=(.*)$", (DEPLOY / "systemd" / "defaults").read_text(), re.M)
    assert len(lines) >= 5
    done = subprocess.run([binaries / "contactd", "--print-config"], env=dict(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_man_page_has_every_option(installed, binaries):
    page = (installed / "usr/local/share/man/man1/contactd.1").read_text().replace("\\-", "-")
    options = re.findall(r"^  (--[a-z-]+)", subprocess.run([binaries / "contactd", "--help"], capture_output=True, text=True).stdout, re.M)
    assert len(options) > 20
    for option in options:
        assert f"\\fB{option}" in page, option


@pytest.fixture
def units(installed, tmp_path) -> pathlib.Path:
    """The units, with a program that exists."""
    needs.tools("systemd-analyze")
    for path in (installed / "usr/local/lib/systemd/system").iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/usr/local/bin/contactd", str(conftest.BUILD / "contactd")))
    return tmp_path


def test_systemd_accepts_the_units(units):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units.iterdir()], capture_output=True, text=True)
    own = [line for line in done.stderr.splitlines() if "contactd" in line]
    assert done.returncode == 0 and not own, done.stderr


def test_the_service_is_hardened(units):
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={MAX_EXPOSURE}", "--no-pager",
                           units / "contactd.service"], capture_output=True, text=True)  # fmt: skip
    exposure = re.search(r"exposure level for contactd.service: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert done.returncode == 0 and float(exposure[1]) <= MAX_EXPOSURE / 10, done.stdout


@pytest.fixture(scope="module")
def packages(installed) -> dict[str, pathlib.Path]:
    needs.tools("dpkg-deb", "dpkg-shlibdeps")
    make("deb")
    return {path.name.split("_")[0]: path for path in (conftest.BUILD / "deb").glob("*.deb")}


def test_lintian_finds_nothing(packages):
    needs.tools("lintian")
    assert set(packages) == {"contactd", "libcontactd0", "libcontactd-dev", "python3-contactd"}
    done = subprocess.run(["lintian", "--fail-on", "error,warning", *packages.values()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not re.search(r"^[EW]:", done.stdout, re.M), done.stdout


def test_the_packages_work_once_unpacked(packages, make_server, tmp_path):
    root = tmp_path / "root"
    for path in packages.values():
        subprocess.run(["dpkg-deb", "--extract", path, root], check=True)
    depends = subprocess.run(["dpkg-deb", "--field", packages["contactd"], "Depends"], capture_output=True, text=True).stdout
    assert "libzmq5" in depends and "libsodium23" in depends
    assert (root / "lib/systemd/system/contactd.service").exists() and (root / "etc/default/contactd").exists()
    for path in ("bash-completion/completions/contactctl", "zsh/vendor-completions/_contactctl",
                 "fish/vendor_completions.d/contactctl.fish", "man/man1/contactctl.1.gz"):  # fmt: skip
        assert (root / "usr/share" / path).stat().st_size > 1000, path
    server = make_server(start=False)
    server.binary = root / "usr/bin/contactd"
    server.start()
    status = subprocess.run([root / "usr/bin/contactctl", "--server", server.stream, "status"], capture_output=True, text=True)
    assert status.returncode == 0 and "ready      yes" in status.stdout, status
    imported = subprocess.run([shutil.which("python3"), "-c", "import ast, pathlib, sys; [ast.parse(p.read_text()) for p in "
                               "pathlib.Path(sys.argv[1]).glob('*.py')]", root / "usr/lib/python3/dist-packages/contactd"])  # fmt: skip
    assert imported.returncode == 0

