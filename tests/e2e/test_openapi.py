"""The OpenAPI document against the server, by schemathesis: for every operation, requests at and beyond each limit of the
document and random ones. Answers have documented statuses, types and bodies, nothing is an error of the server, and what the
document forbids is refused. What it allows may be refused too: it cannot say which fields go together."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

TOOL = shutil.which("schemathesis", path=str(pathlib.Path(sys.executable).parent))


@pytest.mark.skipif(TOOL is None, reason="needs schemathesis: make setup-dev")
def test_the_document_is_what_the_server_does(server, tmp_path):
    done = subprocess.run([TOOL, "run", f"http://127.0.0.1:{server.http_port}/openapi.json", "--phases", "coverage,fuzzing",
                           "--max-examples", "3", "--seed", "1", "--request-timeout", "600", "--no-color",
                           "--suppress-health-check", "too_slow",  # on a busy machine making requests takes long
                           "--exclude-checks", "positive_data_acceptance",
                           "--exclude-path", "/v1/drain"],  # which does what it says
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Tested: 0" not in done.stdout and "Tested:" in done.stdout, done.stdout
