"""`make demo`, the first thing that a new user runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW


@pytest.mark.skipif(INSTRUMENTED, reason="it is the examples that are tested here")
def test_demo(binaries, tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "client_py" / "examples" / "demo.py"), "--build", str(BUILD), "--out",
                           str(tmp_path)], capture_output=True, text=True, timeout=400 * SLOW,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(tmp_path.rglob("*.png")) and any(tmp_path.rglob("*.csv")), sorted(tmp_path.rglob("*"))
