"""What tests of packaging need besides the e2e tests' fixtures: tools that not every machine can have, and a clear word
where they are missing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def tools(*names: str, as_root: bool = False) -> None:
    """Skips the module or test unless these programs are installed (tests/tools/packages, group deploy)."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin"
    missing = [name for name in names if not shutil.which(name, path=path)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; tests/tools/packages install deploy", allow_module_level=True)
    if as_root and os.geteuid() != 0:
        pytest.skip(f"{', '.join(names)}: only root may do what this tests", allow_module_level=True)


def bill(text: str) -> dict[str, Any]:
    """Components of a list of what is handed on, by their names; the list is CycloneDX, each has a licence, and docs/licences.md has it."""
    pytest.importorskip("cyclonedx", reason="not installed: cyclonedx-python-lib; make build/venv/deploy")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    listed = json.loads(text)
    root = listed["metadata"]["component"]
    assert (root["name"], root["version"]) == ("contactd", re.search(r"^VERSION  := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1])
    page = (ROOT / "docs" / "licences.md").read_text()
    for component in listed["components"]:
        assert component["licenses"] and f"| {component.get('group', component['name'])} |" in page, component
        assert "purl" not in component or PackageURL.from_string(component["purl"]).to_string() == component["purl"]
    assert listed["dependencies"] == [{"ref": "contactd", "dependsOn": [component["bom-ref"] for component in listed["components"]]}]
    return {component["name"]: component for component in listed["components"]}
