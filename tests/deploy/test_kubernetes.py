"""deploy/kubernetes: valid for Kubernetes' own schemas, and true of the server that they run.

`kubectl kustomize` puts the overlays together where kubectl is installed; elsewhere the base's files are checked alone.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

import needs
import pytest

import conftest
from conftest import binaries, make_server  # noqa: F401
from http_api import Api

yaml = pytest.importorskip("yaml")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

FOLDER = needs.ROOT / "deploy" / "kubernetes"
OVERLAYS = ["cpu", "gpu"]
VERSIONS = ["1.29", "1.33"]  # of Kubernetes; the oldest and a newer one that manifests are checked for
SELECTOR = {"app.kubernetes.io/name": "contactd"}
LAST_ANSWERS_S = 3  # after --drain; server/main.c


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def base() -> list[dict[str, Any]]:
    kustomization = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())
    return [d for name in kustomization["resources"] for d in documents((FOLDER / "base" / name).read_text())]


def overlay(name: str) -> list[dict[str, Any]]:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed, so overlays are not put together; the base's files are checked alone")
    done = subprocess.run(["kubectl", "kustomize", FOLDER / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def one(found: list[dict[str, Any]], kind: str, name: str = "contactd") -> dict[str, Any]:
    (document,) = [d for d in found if d["kind"] == kind and d["metadata"]["name"].startswith(name)
                   and (kind != "Service" or d["metadata"]["name"] == name)]  # fmt: skip
    return document


def options(found: list[dict[str, Any]]) -> dict[str, str]:
    return one(found, "ConfigMap")["data"]


def base_options() -> dict[str, str]:
    (generator,) = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def validate(found: list[dict[str, Any]]) -> None:
    for document in found:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


def test_every_file_is_used():
    resources = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())["resources"]
    assert {p.name for p in (FOLDER / "base").iterdir()} == {*resources, "kustomization.yaml"}


def test_the_base_is_valid():
    validate(base())


def test_a_wrong_manifest_is_noticed():
    wrong = one(base(), "Deployment")
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 5  # no such field
    with pytest.raises(kubernetes_validate.ValidationError):
        validate([wrong])


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_valid(name):
    found = overlay(name)
    assert len(found) == len(base()) + 1  # and the map of options
    validate(found)


def test_the_selectors_agree():
    found = base()
    spec = one(found, "Deployment")["spec"]
    assert spec["selector"]["matchLabels"] == SELECTOR
    for service in "contactd", "contactd-pods":
        assert one(found, "Service", service)["spec"]["selector"] == SELECTOR
    assert one(found, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == SELECTOR
    assert one(found, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == SELECTOR
    assert one(found, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "contactd"
    assert "replicas" not in spec  # else every apply would undo what the autoscaler did


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_pods_have_the_label_that_is_selected(name):
    found = overlay(name)
    assert one(found, "Deployment")["spec"]["template"]["metadata"]["labels"].items() >= SELECTOR.items()
    (rule, _) = one(found, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"] == {"contactd-client": "true"}  # kustomize has added none


def test_the_pod_is_restricted():
    """What the Pod Security Standard `restricted` asks for, and a root that cannot be written."""
    pod = one(base(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    user = re.search(r"^USER (\d+):(\d+)$", (needs.ROOT / "docker" / "Dockerfile").read_text(), re.M)
    assert [pod["securityContext"][k] for k in ("runAsUser", "runAsGroup", "fsGroup")] == [int(user[1]), int(user[2]), int(user[2])]
    assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False


def test_the_ports_are_the_images():
    (container,) = one(base(), "Deployment")["spec"]["template"]["spec"]["containers"]
    exposed = re.search(r"^EXPOSE (.*)$", (needs.ROOT / "docker" / "Dockerfile").read_text(), re.M)[1].split()
    assert [str(port["containerPort"]) for port in container["ports"]] == exposed
    assert [base_options()[k].rpartition(":")[2] for k in ("CONTACTD_STREAM", "CONTACTD_HTTP")] == exposed


def test_a_pod_may_take_as_long_as_it_drains():
    pod = one(base(), "Deployment")["spec"]["template"]["spec"]
    before = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = int(base_options()["CONTACTD_DRAIN"].removesuffix("s"))
    assert pod["terminationGracePeriodSeconds"] > before + drain + LAST_ANSWERS_S


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_options_are_the_servers(name, binaries):
    env = options(overlay(name))
    done = subprocess.run([binaries / "contactd", "--print-config"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"backend = {'cuda' if name == 'gpu' else 'cpu'}" in done.stdout


def test_the_gpu_overlay_asks_for_a_gpu():
    (container,) = one(overlay("gpu"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "contactd:cuda"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == container["resources"]["requests"]["nvidia.com/gpu"] == "1"


STATE = "/var/lib/contactd"


@pytest.fixture
def secrets(binaries, tmp_path) -> pathlib.Path:
    """The folder /etc/contactd of a pod: what the Secrets hold, with the modes that their volumes have; the folder state
    beside them stands for its emptyDir."""
    pod = one(base(), "Deployment")["spec"]["template"]["spec"]
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    modes = {v["name"]: v["secret"]["defaultMode"] for v in pod["volumes"] if "secret" in v}
    assert [v["name"] for v in pod["volumes"] if "emptyDir" in v] == ["state"] and len(pod["volumes"]) == len(modes) + 1
    assert mounts == {"keys": "/etc/contactd/keys", "tls": "/etc/contactd/tls", "state": STATE}
    keys, tls = tmp_path / "keys", tmp_path / "tls"
    keys.mkdir(), tls.mkdir()
    lines = ""
    for command in (["keys", "new", "server"], ["keys", "new", "client"], ["tokens", "new", "alice", "--role", "admin"]):
        done = subprocess.run([binaries / "contactctl", *command], cwd=keys, capture_output=True, text=True, check=True)
        lines += done.stdout if "server" not in command else ""
    (keys / "principals").write_text(lines)
    subprocess.run([binaries / "contactctl", "keys", "cert", "tls", "--days", "2"], cwd=tls, check=True, capture_output=True)
    (tls / "tls.pem").rename(tls / "tls.crt")
    (tls / "tls-key.pem").rename(tls / "tls.key")
    for folder in keys, tls:
        for path in folder.iterdir():
            path.chmod(modes[folder.name])
    return tmp_path


def probe(server: conftest.Server, path: str) -> int:
    """As a kubelet probes: HTTPS without checking the certificate, to the pod's address."""
    needs.tools("curl")
    done = subprocess.run(["curl", "-sk", "-o", os.devnull, "-w", "%{http_code}", "-H", f"Host: 10.1.2.3:{server.http_port}",
                           f"https://127.0.0.1:{server.http_port}{path}"], capture_output=True, text=True)  # fmt: skip
    return int(done.stdout)


def test_a_server_with_these_options_answers_the_probes(secrets, make_server):
    env = {k: v.replace("/etc/contactd", str(secrets)) for k, v in base_options().items()}
    assert env["CONTACTD_STATE_DIR"] == STATE
    env["CONTACTD_STATE_DIR"] = str(secrets / "state")
    server = make_server(env=env, start=False)
    server.env |= {"CONTACTD_STREAM": f"tcp://0.0.0.0:{server.stream_port}", "CONTACTD_HTTP": f"0.0.0.0:{server.http_port}"}
    log = server.log_path.open("ab")
    server.process = subprocess.Popen([server.binary], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=server.env)
    conftest.wait_until(lambda: not server.alive() or probe(server, "/readyz") == 200, "a ready server")
    assert server.alive(), server.logs()
    (container,) = one(base(), "Deployment")["spec"]["template"]["spec"]["containers"]
    for kind in "startupProbe", "livenessProbe", "readinessProbe":
        assert container[kind]["httpGet"]["scheme"] == "HTTPS" and container[kind]["httpGet"]["port"] == "http"
        assert probe(server, container[kind]["httpGet"]["path"]) == 200
    assert probe(server, "/metrics") == 200 and probe(server, "/v1/scenes") == 401


def test_the_autoscaler_follows_a_metric_that_exists(make_server):
    (metric,) = one(base(), "HorizontalPodAutoscaler")["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    assert Api(make_server().http).gauge(name) == 0
