"""programs.py - runs the bench programs of a build, for bench.py and compare.py: what they print, and on what machine."""
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESHES = os.environ.get("CONTACTD_MESHES", str(ROOT / ".." / "shared" / "meshes"))
NO_BACKEND = 3  # bench_engine's exit code


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout else "unknown"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def build_conditions(build, tree):
    """How the build came about. The commit is the tree's: it is the build's own if the tree was built as it stands."""
    compiler, *flags = (build / "flags").read_text().split(" / ")[0].split()
    return {
        "compiler": first_line(compiler, "--version"),
        "flags": " ".join(f for f in flags if f.startswith(("-O", "-f", "-m"))),
        "commit": first_line("git", "-C", str(tree), "describe", "--always", "--dirty"),
    }


def conditions(build):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "machine": f"{processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        **build_conditions(build, ROOT),
        "load_before": os.getloadavg()[0],
    }


def json_lines(command, timeout, may_lack_backend=False, env=None):
    """What the program printed; None where it lacks the backend and that is allowed. env: variables beside our own."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, timeout=timeout,
                          env=os.environ | (env or {}))
    if done.returncode == NO_BACKEND and may_lack_backend:
        return None
    if done.returncode:
        raise SystemExit(f"bench: {command[0]} failed with exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def engine_runs(build, seconds, meshes, *more, may_lack_backend=False):
    command = [str(build / "tests/bench/bench_engine"), "--meshes", meshes, "--seconds", str(seconds), *more]
    return json_lines(command, 600, may_lack_backend)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def defaults_of(build):
    done = subprocess.run([str(build / "contactd"), "--print-config"], capture_output=True, text=True, check=True)
    return dict(line.split(" = ", 1) for line in done.stdout.splitlines() if " = " in line)


def make_keys(build, folder):
    """The flags of a server that encrypts its stream, and the variables by which a client does."""
    principals = pathlib.Path(folder) / "principals"
    for name in ("server", "client"):
        line = subprocess.run([build / "contactctl", "keys", "new", name], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True).stdout
        principals.write_text(line)  # the client's is the last
    return (["--stream-key", f"{folder}/server.key", "--principals", str(principals)],
            {"CONTACTD_SERVER_KEY": f"{folder}/server.key", "CONTACTD_CLIENT_KEY": f"{folder}/client.key"})


def served_runs(build, flags, bench, encrypted=False, env=None):
    """What a bench printed that got the endpoint and the process of a contactd of its own. env: the bench's variables."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="contactd-bench-") as folder:
        log_path = pathlib.Path(folder) / "contactd.log"
        more, env = make_keys(build, folder) if encrypted else ([], env or {})
        command = [str(build / "contactd"), "--stream", endpoint, "--http", f"127.0.0.1:{free_port()}", *flags, *more]
        with log_path.open("w") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)
        try:
            return json_lines(bench(endpoint, str(server.pid)), 120, env=env)
        except SystemExit:
            sys.stderr.write(log_path.read_text())
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def ground_runs(build, seconds):
    return served_runs(build, [], lambda endpoint, _: [str(build / "tests/bench/bench_ground"), endpoint, str(seconds)])


def stream_runs(build, seconds, meshes, client_spin=None, server_spin=None, backend="cpu", encrypted=False):
    """None: the build is too old to encrypt."""
    more = [] if client_spin is None else [client_spin]
    defaults = defaults_of(build)
    if encrypted and "stream-key" not in defaults:
        return None
    server_spin = server_spin or defaults["spin-us"]
    return served_runs(build, ["--spin-us", server_spin, "--backend", backend], lambda endpoint, pid: [
        str(build / "tests/bench/bench_stream"), endpoint, pid, server_spin, str(seconds), meshes, *more], encrypted)


def estimate_runs(build, meshes):
    return json_lines([str(build / "tests/bench/bench_estimate"), "3000", meshes], 300)


def deadline_runs(build, seconds, meshes):
    return json_lines([str(build / "tests/bench/bench_deadline"), str(seconds), meshes], 300)


def neighbour_runs(build, seconds, meshes, backend="cpu"):
    return served_runs(build, ["--backend", backend], lambda endpoint, _: [
        str(build / "tests/bench/bench_neighbour"), endpoint, str(seconds), meshes])


def number(value):
    """Empty for None, which stands for a number that there is not."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def text_table(heads, lines):
    lines = [heads, *lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    lines.insert(1, tuple("-" * w for w in widths))
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in lines)
