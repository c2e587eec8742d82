"""sbom.py B OUT - of what is built in B, a list of all that it is made of (a "software bill of materials") in the file OUT, as CycloneDX
1.6 in JSON: the libraries that its programs load, with packages, versions, hashes and licences, what is compiled in, and what the Python
client needs. sbom.py --table B prints their licences as a table, for docs/licences.md. `make sbom` and `make wheel` call it, at the root
of the tree."""

from __future__ import annotations

import datetime
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import uuid
from typing import Iterator

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("contactd", "contactctl", "libcontact.so", "libcontactd.so")
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
licenses = LicenseFactory()


def zeromq_terms(version: str) -> str:
    """They changed with 4.3.5."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    return "MPL-2.0" if numbers >= (4, 3, 5) else "LGPL-3.0-or-later WITH LGPL-3.0-linking-exception"


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def package_of(library: pathlib.Path) -> tuple[str, str]:
    """Name and version of the Debian package that has it; empty where dpkg does not know."""
    for path in (str(library), str(library.resolve()), f"/usr{library}"):
        name = output("dpkg-query", "-S", path).split(":")[0].strip()
        if name:
            return name, output("dpkg-query", "-W", "-f", "${Version}\n", name).splitlines()[0]
    return "", ""


def shared_libraries(built: pathlib.Path) -> Iterator[Component]:
    found = {path for name in PROGRAMS for path in re.findall(r"(/\S+) \(0x", output("ldd", str(built / name)))}
    for library in sorted(map(pathlib.Path, found)):
        known = [row for prefix, row in LIBRARIES.items() if library.name.startswith(prefix)]
        package, version = package_of(library)
        project, terms = known[0] if known else (library.name, "")
        if project == "ZeroMQ":
            terms = zeromq_terms(version.split(":")[-1])
        if not terms:
            print(f"sbom.py: the licence of {library.name} ({package}) is not known: add it to LIBRARIES in {__file__}", file=sys.stderr)
        yield Component(name=library.name, type=ComponentType.LIBRARY, version=version or None, bom_ref=library.name, group=project,
                        licenses=[licenses.make_from_string(terms)] if terms else None,
                        purl=PackageURL("deb", platform.freedesktop_os_release()["ID"], package, version) if package else None,
                        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(library.read_bytes()).hexdigest())])


def compiled_in(built: pathlib.Path) -> Iterator[Component]:
    (three,) = (ROOT / "server" / "web" / "vendor").glob("three-r*.min.js")
    release = re.findall(r"r(\d+)", three.name)[0]
    yield Component(name="three.js", version=f"0.{release}.0", bom_ref="three", licenses=[licenses.make_with_id("MIT")],
                    purl=PackageURL("npm", None, "three", f"0.{release}.0"))
    version = output("flatc", "--version").split()[-1:]
    yield Component(name="FlatBuffers", version=version[0] if version else None, bom_ref="flatbuffers", licenses=[licenses.make_with_id("Apache-2.0")])
    if "-DCT_HAVE_CUDA" in (built / "flags").read_text():
        yield Component(name="CUDA runtime", bom_ref="cudart", licenses=[licenses.make_with_name("NVIDIA CUDA Toolkit EULA")])


def python_packages() -> Iterator[Component]:
    dependencies = re.search(r"^dependencies = \[(.*?)\]", (ROOT / "client_py" / "pyproject.toml").read_text(), re.M)
    assert dependencies
    for name, versions in re.findall(r'"([\w-]+)([^"]*)"', dependencies[1]):
        project, terms = PYTHON[name]
        yield Component(name=project, bom_ref=f"pypi-{name}", licenses=[licenses.make_from_string(terms)],
                        purl=PackageURL("pypi", None, name), properties=[Property(name="contactd:versions", value=versions)])


def components(built: pathlib.Path) -> list[Component]:
    return [*shared_libraries(built), *compiled_in(built), *python_packages()]


def bill(built: pathlib.Path) -> str:
    version = re.search(r"^VERSION\s*:?=\s*(\S+)", (ROOT / "Makefile").read_text(), re.M)
    assert version
    bom = Bom(components=components(built))
    bom.metadata.component = root = Component(name="contactd", type=ComponentType.APPLICATION, version=version[1], bom_ref="contactd",
                                              licenses=[licenses.make_with_id("MIT")])
    bom.register_dependency(root, bom.components)
    # The same build gives the same list.
    named = ",".join(f"{c.name} {c.version}" for c in sorted(bom.components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, named)
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", built.joinpath("contactd").stat().st_mtime)),
                                                             datetime.timezone.utc)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    return text


def table(built: pathlib.Path) -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for component in components(built):
        (licence,) = component.licenses or (None,)
        terms = next((str(text) for key in ("value", "id", "name") if (text := getattr(licence, key, None))), "not known")
        rows.setdefault((component.group or component.name, terms), []).append(component.name)
    lines = [f"| {project} | {', '.join(f'`{name}`' for name in sorted(names) if name != project)} | {terms} |" for (project, terms), names in rows.items()]
    return "\n".join(["| project | files | licence |", "| --- | --- | --- |", *sorted(lines, key=str.lower)])


def main() -> None:
    if sys.argv[1:2] == ["--table"]:
        print(table(pathlib.Path(sys.argv[2])))
        return
    built, out = map(pathlib.Path, sys.argv[1:3])
    out.write_text(bill(built) + "\n")


if __name__ == "__main__":
    main()
