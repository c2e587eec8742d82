"""What tests of packaging need besides the e2e tests' fixtures: tools that not every machine can have, and a clear word
where they are missing."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

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
