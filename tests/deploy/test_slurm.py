"""deploy/slurm, run by a real Slurm that is started here: munged, slurmctld and slurmd on this machine, without a GPU."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import socket
import subprocess
import sys
from typing import Iterator

import needs
import pytest

needs.tools("slurmctld", "slurmd", "munged", "sbatch", "scancel", as_root=True)

import conftest  # noqa: E402
from conftest import PATIENCE, binaries, free_port, wait_until  # noqa: E402, F401

FOLDER = needs.ROOT / "deploy" / "slurm"
SBIN = os.environ["PATH"] + ":/usr/sbin:/sbin"
# Slurm looks for what it can do once in a while, up to a minute, where nothing tells it at once.
wait_for = functools.partial(wait_until, seconds=5 * PATIENCE)
CONFIG = """
ClusterName=contactd
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ctld}
SlurmdPort={slurmd}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=300
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES State=UP
"""
# What a simulator does: reads the addresses, and steps a scene on each server.
CLIENT = """
import os, subprocess, sys
import numpy as np, contactd
from geometry import UNIT_BOX, moved
found = subprocess.run([sys.argv[1], sys.argv[2], "2"], capture_output=True, text=True, check=True).stdout.split()
for address in found:
    with contactd.connect(address, server_key=sys.argv[3], client_key=sys.argv[4]) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(mesh, pose=moved(0))
        scene.add_body(mesh, pose=moved(0.75))
        (contact,) = scene.step().contacts
        print(address, contact.volume)
"""


class Slurm:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        for name in "state", "spool", "jobs":
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self.config = folder / "slurm.conf"
        self.config.write_text(CONFIG.format(host=socket.gethostname().split(".")[0], folder=folder, ctld=free_port(), slurmd=free_port()))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CONTACTD_", "SLURM"))} | {
            "SLURM_CONF": str(self.config), "PATH": f"{conftest.BUILD}:{SBIN}",
            "PYTHONPATH": f"{needs.ROOT / 'client_py'}:{needs.ROOT / 'tests' / 'e2e'}"}  # fmt: skip
        self.daemons: list[subprocess.Popen[bytes]] = []

    def daemon(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.log").open("wb") as log:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env))

    def start(self) -> "Slurm":
        at = {flag: str(self.folder / f"munge.{flag}") for flag in ("socket", "pid", "log", "seed")}
        self.daemon("munged", "--foreground", "--force", "--key-file", str(self.folder / "munge.key"), "--socket", at["socket"],
                    "--pid-file", at["pid"], "--log-file", at["log"], "--seed-file", at["seed"])  # fmt: skip
        wait_for(pathlib.Path(at["socket"]).exists, "munged's socket")
        self.daemon("slurmctld", "-D", "-f", str(self.config))
        self.daemon("slurmd", "-D", "-f", str(self.config), "-N", "localhost")
        wait_for(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False), "a node that is idle")
        return self

    def stop(self) -> None:
        self.run("scancel", "--user=root", check=False)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(PATIENCE)

    def run(self, *command: str, check: bool = True, **more: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self.env | more, cwd=self.folder / "jobs")
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def submit(self, *arguments: str, **more: str) -> str:
        return self.run("sbatch", "--parsable", *arguments, **more).strip()

    def state(self, job: str) -> list[str]:
        """Of each task: its state and exit code."""
        return re.findall(r"JobState=(\S+).*?ExitCode=(\d+)", self.run("scontrol", "show", "job", job), re.S)

    def ended(self, job: str) -> list[tuple[str, int]]:
        def over() -> bool:
            return all(state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING") for state, _ in self.state(job))

        wait_for(over, f"the end of job {job}")
        return [(state, int(code)) for state, code in self.state(job)]

    def output(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted((self.folder / "jobs").iterdir()) if path.is_file())


@pytest.fixture(scope="module")
def slurm(binaries, tmp_path_factory) -> Iterator[Slurm]:
    running = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def keys(binaries, tmp_path) -> dict[str, str]:
    made = {}
    for name in "server", "simulator":
        done = subprocess.run([binaries / "contactctl", "keys", "new", name], cwd=tmp_path, capture_output=True, text=True, check=True)
        made[name] = done.stdout
    (tmp_path / "principals").write_text(made["simulator"])
    return {"server": re.search(r"key=(\S+)", made["server"])[1], "client": str(tmp_path / "simulator.key"),
            "CONTACTD_STREAM_KEY": str(tmp_path / "server.key"), "CONTACTD_PRINCIPALS": str(tmp_path / "principals")}  # fmt: skip


def test_a_job_uses_the_servers_of_an_array_job(slurm, keys, tmp_path):
    endpoints = tmp_path / "endpoints"
    options = {k: v for k, v in keys.items() if k.startswith("CONTACTD_")}
    servers = slurm.submit("--array=0-1", "--cpus-per-task=1", str(FOLDER / "contactd.sbatch"), CONTACTD_ENDPOINTS=str(endpoints), **options)
    (tmp_path / "client.py").write_text(CLIENT)
    client = slurm.submit("--output=client.out", f"--wrap={sys.executable} {tmp_path / 'client.py'} {FOLDER / 'addresses'} {endpoints} "
                          f"'{keys['server']}' {keys['client']}")  # fmt: skip
    assert slurm.ended(client) == [("COMPLETED", 0)], slurm.output()
    lines = (slurm.folder / "jobs" / "client.out").read_text().splitlines()
    assert len(lines) == 2 and len({line.split()[0] for line in lines}) == 2, lines
    for line in lines:
        assert float(line.split()[1]) == pytest.approx(0.25, rel=1e-6)
    assert {path.name for path in endpoints.iterdir()} == {f"{servers}.0", f"{servers}.1"}
    slurm.run("scancel", servers)
    assert {state for state, _ in slurm.ended(servers)} == {"CANCELLED"}
    wait_for(lambda: not list(endpoints.iterdir()), "no address of a server that has ended")
    drained = [path.read_text() for path in (slurm.folder / "jobs").glob(f"contactd-{servers}_*.out")]
    assert len(drained) == 2 and all("finishing what is queued" in text and "ended" in text for text in drained), slurm.output()


def refused(slurm: Slurm, tmp_path: pathlib.Path, *arguments: str, **more: str) -> tuple[int, str]:
    out = tmp_path / "refused.out"
    job = slurm.submit(f"--output={out}", *arguments, str(FOLDER / "contactd.sbatch"), **more)
    ((state, code),) = slurm.ended(job)
    assert state == "FAILED", slurm.output()
    return code, out.read_text()


def test_cuda_without_a_gpu_is_refused(slurm, tmp_path):
    code, text = refused(slurm, tmp_path, CONTACTD_ENDPOINTS=str(tmp_path / "e"), CONTACTD_BACKEND="cuda")
    assert code == 4 and "--gpus=1" in text


def test_no_folder_for_the_addresses_is_refused(slurm, tmp_path):
    code, text = refused(slurm, tmp_path)
    assert code == 2 and "CONTACTD_ENDPOINTS names no folder" in text
    (tmp_path / "file").touch()
    code, text = refused(slurm, tmp_path, CONTACTD_ENDPOINTS=str(tmp_path / "file"))
    assert code == 2 and "cannot be written" in text


def test_a_server_that_does_not_start_leaves_no_address(slurm, tmp_path):
    """Without keys it does not listen on the network's addresses."""
    code, text = refused(slurm, tmp_path, CONTACTD_ENDPOINTS=str(tmp_path / "e"))
    assert code == 2 and "--insecure" in text
    assert list((tmp_path / "e").iterdir()) == []


def test_addresses_says_when_there_are_too_few(tmp_path):
    (tmp_path / "7.0").write_text("tcp://a:1\n")
    (tmp_path / "7.1.new").write_text("tcp://b:")
    done = subprocess.run([FOLDER / "addresses", tmp_path, "2", "0"], capture_output=True, text=True)
    assert done.returncode == 1 and "1 of 2 servers" in done.stderr
    done = subprocess.run([FOLDER / "addresses", tmp_path, "1", "0"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "tcp://a:1\n"
