"""sbom.py B OUT [PART...] - of what is built in B, a list of all that it is made of (a "software bill of materials") in the file OUT, as
CycloneDX 1.6 in JSON: the libraries that its programs load, with packages, versions, hashes and licences, what is compiled in, and what
the Python client needs. Parts are programs, libraries and python; where none is named, all. sbom.py --table B prints their licences as a
table, for docs/licences.md; sbom.py --packages B the Debian packages of what both programs load. `make sbom`, `make deb`, `make wheel` and docker/ call it, at the root of the tree. It needs nothing but
Python, as images are built without PyPI. For a build for another machine make sets CROSS_TRIPLET and CROSS_SYSROOT."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import urllib.parse
import uuid
from typing import Any, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("contactd", "contactctl", "libcontact.so", "libcontactd.so")
PARTS = (*PROGRAMS, "python")
TRIPLET, SYSROOT = os.environ.get("CROSS_TRIPLET", ""), os.environ.get("CROSS_SYSROOT", "")
GNU_LIBRARY = "LGPL-3.0-or-later OR GPL-2.0-or-later"

# Shared libraries by the beginning of their names: whose they are, and their terms (SPDX). Of the files that a program loads, not of
# the tools and tests that come with their sources.
LIBRARIES = {
    "libzmq": ("ZeroMQ", None),  # see zeromq_terms
    "libsodium": ("libsodium", "ISC"),
    "libmicrohttpd": ("GNU libmicrohttpd", "LGPL-2.1-or-later"),
    "libgnutls": ("GnuTLS", "LGPL-2.1-or-later"),
    "libjansson": ("Jansson", "MIT"),
    "libepoxy": ("libepoxy", "MIT"),
    "libpng": ("libpng", "libpng-2.0"),
    "libz.": ("zlib", "Zlib"),
    "libnettle": ("Nettle", GNU_LIBRARY),
    "libhogweed": ("Nettle", GNU_LIBRARY),
    "libgmp": ("GMP", GNU_LIBRARY),
    "libidn2": ("libidn2", GNU_LIBRARY),
    "libunistring": ("libunistring", GNU_LIBRARY),
    "libtasn1": ("libtasn1", "LGPL-2.1-or-later"),
    "libp11-kit": ("p11-kit", "BSD-3-Clause"),
    "libffi": ("libffi", "MIT"),
    "libbsd": ("libbsd", "BSD-3-Clause"),
    "libmd": ("libmd", "BSD-3-Clause"),
    "libpgm": ("OpenPGM", "LGPL-2.1-only"),
    "libnorm": ("NORM", "NRL"),
    "libgssapi_krb5": ("MIT Kerberos", "MIT"),
    "libkrb5": ("MIT Kerberos", "MIT"),
    "libk5crypto": ("MIT Kerberos", "MIT"),
    "libcom_err": ("libcom_err", "MIT"),
    "libkeyutils": ("keyutils", "LGPL-2.0-or-later"),
    "libbrotli": ("Brotli", "MIT"),
    "libzstd": ("Zstandard", "BSD-3-Clause"),
    "libstdc++": ("GCC runtime", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "libgcc_s": ("GCC runtime", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    **dict.fromkeys(("libc.", "libm.", "libdl.", "libpthread.", "librt.", "libresolv.", "ld-linux"), ("glibc", "LGPL-2.1-or-later")),
}
PYTHON = {"numpy": ("NumPy", "BSD-3-Clause"), "pyzmq": ("pyzmq", "BSD-3-Clause"), "cffi": ("cffi", "MIT")}


def zeromq_terms(version: str) -> str:
    """They changed with 4.3.5."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    return "MPL-2.0" if numbers >= (4, 3, 5) else "LGPL-3.0-or-later WITH LGPL-3.0-linking-exception"


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def loaded(program: pathlib.Path) -> set[pathlib.Path]:
    """The shared libraries that it loads. One of another machine is not run to find out."""
    if not TRIPLET:
        return set(map(pathlib.Path, re.findall(r"(/\S+) \(0x", output("ldd", str(program)))))
    found: set[pathlib.Path] = set()
    todo = [program]
    while todo:
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", str(todo.pop()))):
            folders = (pathlib.Path(f"{SYSROOT}/{folder}/{TRIPLET}") for folder in ("lib", "usr/lib"))
            library = next((folder / name for folder in folders if (folder / name).exists()), None)
            if not library:
                sys.exit(f"sbom.py: {name} is in neither lib/{TRIPLET} nor usr/lib/{TRIPLET} of {SYSROOT or '/'}")
            if library not in found:
                found.add(library)
                todo.append(library)
    return found


def package_of(library: pathlib.Path) -> tuple[str, str]:
    """Name and version of the Debian package that has it; empty where dpkg does not know."""
    dpkg = ["dpkg-query", f"--root={SYSROOT or '/'}"]
    files = [str(path).removeprefix(SYSROOT) for path in (library, library.resolve())]
    for path in (*files, f"/usr{files[0]}"):
        name = output(*dpkg, "-S", path).split(":")[0].strip()
        if name:
            return name, output(*dpkg, "-W", "-f", "${Version}\n", name).splitlines()[0]
    return "", ""


def component(name: str, terms: str, ref: str | None = None, **fields: Any) -> dict[str, Any]:
    """terms: an SPDX identifier or expression, or empty where they are not known."""
    said = {"licenses": [{"expression": terms} if " " in terms else {"license": {"id": terms}}]} if terms else {}
    return {"type": "library", "bom-ref": ref or name, "name": name} | said | {key: value for key, value in fields.items() if value}


def purl(kind: str, *path: str, version: str = "") -> str:
    name = "/".join(urllib.parse.quote(part, safe="") for part in path)
    return f"pkg:{kind}/{name}" + (f"@{urllib.parse.quote(version, safe=':')}" if version else "")


def shared_libraries(built: pathlib.Path, programs: list[str]) -> Iterator[dict[str, Any]]:
    for library in sorted({library for name in programs for library in loaded(built / name)}):
        known = [row for prefix, row in LIBRARIES.items() if library.name.startswith(prefix)]
        package, version = package_of(library)
        project, terms = known[0] if known else (library.name, "")
        if project == "ZeroMQ":
            terms = zeromq_terms(version.split(":")[-1])
        if not terms:
            print(f"sbom.py: the licence of {library.name} ({package}) is not known: add it to LIBRARIES in {__file__}", file=sys.stderr)
        yield component(library.name, terms or "", group=project, version=version,
                        purl=package and purl("deb", platform.freedesktop_os_release()["ID"], package, version=version),
                        hashes=[{"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}])


def compiled_in(built: pathlib.Path, programs: list[str]) -> Iterator[dict[str, Any]]:
    if "contactd" in programs:
        (three,) = (ROOT / "server" / "web" / "vendor").glob("three-r*.min.js")
        release = re.findall(r"r(\d+)", three.name)[0]
        yield component("three.js", "MIT", "three", version=f"0.{release}.0", purl=purl("npm", "three", version=f"0.{release}.0"))
    if {"contactd", "contactctl", "libcontactd.so"} & set(programs):
        yield component("FlatBuffers", "Apache-2.0", "flatbuffers", version=output("flatc", "--version").split()[-1])
    if {"contactd", "libcontact.so"} & set(programs) and "-DCT_HAVE_CUDA" in (built / "flags").read_text():
        yield component("CUDA runtime", "", "cudart", licenses=[{"license": {"name": "NVIDIA CUDA Toolkit EULA"}}])


def python_packages() -> Iterator[dict[str, Any]]:
    dependencies = re.search(r"^dependencies = \[(.*?)\]", (ROOT / "client_py" / "pyproject.toml").read_text(), re.M)
    assert dependencies
    for name, versions in re.findall(r'"([\w-]+)([^"]*)"', dependencies[1]):
        project, terms = PYTHON[name]
        yield component(project, terms, f"pypi-{name}", purl=purl("pypi", name), properties=[{"name": "contactd:versions", "value": versions}])


def components(built: pathlib.Path, parts: list[str]) -> list[dict[str, Any]]:
    programs = [part for part in parts if part != "python"]
    return [*shared_libraries(built, programs), *compiled_in(built, programs), *(python_packages() if "python" in parts else ())]


def bill(built: pathlib.Path, parts: list[str]) -> str:
    version = re.search(r"^VERSION\s*:?=\s*(\S+)", (ROOT / "Makefile").read_text(), re.M)
    assert version
    made_of = components(built, parts)
    when = int(os.environ.get("SOURCE_DATE_EPOCH", built.joinpath("contactd").stat().st_mtime))
    # The same build gives the same list.
    named = ",".join(f"{c['name']} {c.get('version')}" for c in made_of)
    return json.dumps({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, named)}",
        "metadata": {"timestamp": datetime.datetime.fromtimestamp(when, datetime.timezone.utc).isoformat(),
                     "component": component("contactd", "MIT", version=version[1]) | {"type": "application"}},
        "components": made_of,
        "dependencies": [{"ref": "contactd", "dependsOn": [c["bom-ref"] for c in made_of]}],
    }, indent=1)


def table(built: pathlib.Path) -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for found in components(built, list(PARTS)):
        (licence,) = found.get("licenses", [{}])
        terms = licence.get("expression") or " ".join(licence.get("license", {}).values()) or "not known"
        rows.setdefault((found.get("group", found["name"]), terms), []).append(found["name"])
    lines = [f"| {project} | {', '.join(f'`{name}`' for name in sorted(names) if name != project)} | {terms} |" for (project, terms), names in rows.items()]
    return "\n".join(["| project | files | licence |", "| --- | --- | --- |", *sorted(lines, key=str.lower)])


def main() -> None:
    if sys.argv[1:2] == ["--table"]:
        print(table(pathlib.Path(sys.argv[2])))
        return
    if sys.argv[1:2] == ["--packages"]:
        built = pathlib.Path(sys.argv[2])
        packages = {package_of(library)[0] for name in ("contactd", "contactctl") for library in loaded(built / name)}
        print(*sorted(packages - {""}), sep="\n")
        return
    built, out = map(pathlib.Path, sys.argv[1:3])
    parts = sys.argv[3:] or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"sbom.py: no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(bill(built, parts) + "\n")


if __name__ == "__main__":
    main()
