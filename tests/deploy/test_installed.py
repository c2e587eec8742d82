"""What `make install` and `make deb` put in place: units that systemd accepts and finds hardened, man pages, packages that
lintian finds nothing in."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
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
    given = shlex.split(os.environ.get("MAKEFLAGS", "").partition(" -- ")[2])
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
                 "include/contactd/contactd.h", "include/contactd/contactd.hpp", "share/man/man1/contactd.1", "share/man/man1/contactctl.1",
                 "share/bash-completion/completions/contactctl", "share/zsh/site-functions/_contactctl",
                 "share/fish/vendor_completions.d/contactctl.fish",
                 "lib/libcontact.so", "lib/libcontact.a", "lib/pkgconfig/contact.pc", "include/contact/contact.h",
                 "lib/cmake/contact/contact-config.cmake", "lib/cmake/contactd/contactd-config.cmake",
                 "lib/systemd/system/contactd.socket", "lib/systemd/system/contactd-http.socket"):  # fmt: skip
        assert (local / path).exists(), path
    unit = (local / "lib/systemd/system/contactd.service").read_text()
    assert "ExecStart=/usr/local/bin/contactd\n" in unit and "EnvironmentFile=-/usr/local/etc/default/contactd\n" in unit
    assert "@" not in re.sub(r"^(#.*|SystemCallFilter=.*)$", "", unit, flags=re.M)


EXAMPLES = needs.ROOT / "docs" / "examples"
VOLUMES = ["0.09375", "0.0625", "0.03125"]  # (1 - x) (1 - 0.5) (1 - 0.75) of boxes moved by x


def volumes(program: pathlib.Path, root: pathlib.Path) -> list[str]:
    done = subprocess.run([program], capture_output=True, text=True, env={"LD_LIBRARY_PATH": str(root / "usr/local/lib")})
    assert done.returncode == 0, done.stderr
    return re.findall(r"^volume (\S+) m", done.stdout, re.M)


@pytest.mark.parametrize("source, compiler", [("overlap.c", ["cc", "-std=c99"]), ("overlap.cpp", ["c++", "-std=c++17"])])
def test_the_engine_is_found_by_pkg_config(installed, tmp_path, source, compiler):
    needs.tools(compiler[0], "pkg-config")
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "contact"], check=True, capture_output=True,
                           text=True, env=os.environ | {"PKG_CONFIG_PATH": str(installed / "usr/local/lib/pkgconfig"),
                                             "PKG_CONFIG_SYSROOT_DIR": str(installed)})
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", EXAMPLES / source, *found.stdout.split(), "-o",
                    tmp_path / "overlap"], check=True)
    assert volumes(tmp_path / "overlap", installed) == VOLUMES


def test_both_libraries_are_found_by_cmake(installed, tmp_path):
    needs.tools("cmake", "c++")
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.20)
project(user C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(contact 0.1 REQUIRED CONFIG)
find_package(contactd REQUIRED CONFIG)
add_executable(in_c {EXAMPLES}/overlap.c)
target_link_libraries(in_c contact::contact)
add_executable(in_cxx {EXAMPLES}/overlap.cpp)
target_link_libraries(in_cxx contact::static)
add_executable(client {needs.ROOT}/client_c/examples/simple.c)
target_link_libraries(client contactd::contactd)
add_executable(client_cxx {needs.ROOT}/client_c/examples/simple.cpp)
target_link_libraries(client_cxx contactd::contactd)
""")
    moved = tmp_path / "moved"  # the tree is found wherever it stands
    shutil.copytree(installed, moved, symlinks=True)
    for command in (["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={moved}/usr/local"], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
    assert volumes(tmp_path / "build/in_c", moved) == volumes(tmp_path / "build/in_cxx", moved) == VOLUMES
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nfind_package(contact 9 REQUIRED CONFIG)\n")
    done = subprocess.run(["cmake", "-B", "other", f"-DCMAKE_PREFIX_PATH={moved}/usr/local"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode != 0 and "0.1.0" in done.stdout  # which it found, and is too old


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
    assert set(packages) == {"contactd", "libcontactd0", "libcontactd-dev", "libcontact0", "libcontact-dev", "python3-contactd"}
    done = subprocess.run(["lintian", "--fail-on", "error,warning", *packages.values()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not re.search(r"^[EW]:", done.stdout, re.M), done.stdout


def test_packages_say_what_they_are_made_of(packages, tmp_path):
    """Each of what is in it: the libraries that its programs load, and what is compiled in."""
    listed = {}
    for name, path in packages.items():
        subprocess.run(["dpkg-deb", "--extract", path, tmp_path / name], check=True)
        listed[name] = needs.bill((tmp_path / name / "usr" / "share" / "doc" / name / "contactd.cdx.json").read_text())
    assert {"libmicrohttpd.so.12", "libzmq.so.5", "libsodium.so.23", "three.js", "FlatBuffers"} <= set(listed["contactd"])
    assert {"libzmq.so.5", "FlatBuffers"} <= set(listed["libcontactd0"]) and "three.js" not in listed["libcontactd0"]
    assert "libc.so.6" in listed["libcontact0"] and not {"libzmq.so.5", "FlatBuffers", "NumPy"} & set(listed["libcontact0"])
    assert set(listed["python3-contactd"]) == {"NumPy", "pyzmq", "cffi"}
    for library in ("libcontactd", "libcontact"):
        assert listed[f"{library}-dev"] == listed[f"{library}0"]
    loaded = subprocess.run(["ldd", tmp_path / "contactd/usr/bin/contactd", tmp_path / "contactd/usr/bin/contactctl"], check=True,
                            capture_output=True, text=True).stdout
    assert set(map(os.path.basename, re.findall(r"(/\S+) \(0x", loaded))) == {name for name in listed["contactd"] if ".so" in name}


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

