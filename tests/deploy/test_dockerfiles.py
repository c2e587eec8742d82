"""docker/: what can be checked without building an image."""

from __future__ import annotations

import re
import subprocess

import needs

DOCKER = needs.ROOT / "docker"


def instructions(name: str) -> list[str]:
    return [line for line in (DOCKER / name).read_text().splitlines() if line and not line.startswith("# ") and line != "#"]


def test_the_cuda_file_differs_where_it_says():
    own = re.compile(r"ARG (BASE|BUILD_BASE|CUDA)=|ENV NVIDIA_")
    cpu, cuda = instructions("Dockerfile"), instructions("Dockerfile.cuda")
    assert [x for x in cpu if not own.match(x)] == [x for x in cuda if not own.match(x)]
    assert "ARG CUDA=1" in cuda and "ARG CUDA=0" in cpu


def test_the_context_has_all_that_is_compiled():
    """.dockerignore names what is sent to the build; sources that it lacks would be missing only there."""
    kept = re.findall(r"^!(.*)$", (needs.ROOT / ".dockerignore").read_text(), re.M)
    tracked = subprocess.run(["git", "ls-files"], cwd=needs.ROOT, capture_output=True, text=True, check=True).stdout.split()
    for path in tracked:
        if not path.startswith(("tests/", "docs/")) and path.endswith((".c", ".h", ".cpp", ".cu", ".cuh", ".fbs", ".py", ".glsl", ".json")):
            assert any(path == k or path.startswith(k + "/") for k in kept), path
