"""deploy/monitoring and docker/compose.yaml: rules that fire for what they are about, and queries that a live server answers.

promtool and prometheus are used where they are installed; the names and labels in every query are compared with a live /metrics
anyway."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator

import needs
import pytest

import conftest
import contactd
from conftest import binaries, free_port, make_server, wait_until  # noqa: F401
from geometry import UNIT_BOX, moved
from http_api import Api

yaml = pytest.importorskip("yaml")
parser = pytest.importorskip("prometheus_client.parser")

FOLDER = needs.ROOT / "deploy" / "monitoring"
COMPOSE = needs.ROOT / "docker" / "compose.yaml"
OWN = re.compile(r"\b((?:contactd|process)_\w+)(\{[^}]*\})?")
GIVEN = {"instance", "job"}  # labels that Prometheus adds


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "contactd.rules.yml").read_text())["groups"]
    return group["rules"]


def dashboard() -> dict[str, Any]:
    return json.loads((FOLDER / "grafana" / "dashboards" / "contactd.json").read_text())


def queries() -> list[str]:
    """Of the dashboard, with its variables filled in."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(found) > 30
    return [q.replace("$__rate_interval", "1m").replace("$instance", ".*") for q in found]


def promtool(*arguments: str) -> None:
    needs.tools("promtool")
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_its_configuration():
    promtool("check", "config", "prometheus.yml")


def test_the_alerts_fire_for_what_they_are_about():
    promtool("test", "rules", "contactd.test.yml")


def test_every_alert_is_tested_both_ways():
    fires, quiet = set(), set()
    for test in yaml.safe_load((FOLDER / "contactd.test.yml").read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else quiet).add(case["alertname"])
    assert fires == quiet == {rule["alert"] for rule in rules()}


def test_the_runbook_has_every_alert_and_every_error_code():
    text = (FOLDER / "runbook.md").read_text()
    sections = re.findall(r"^### (\w+)$", text, re.M)
    codes = re.findall(r"^ +X\((\w+), \d+", (needs.ROOT / "proto" / "errors.h").read_text(), re.M)
    assert len(codes) > 20
    assert sorted(sections) == sorted([*(rule["alert"] for rule in rules()), *(code for code in codes if code != "OK")])
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"deploy/monitoring/runbook.md#{rule['alert'].lower()}"
    for link in re.findall(r"\]\(#(\w+)\)", text):
        assert link in {section.lower() for section in sections}, link


# ---- against a live server


def use(server: conftest.Server) -> None:
    with contactd.connect(server.stream) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(mesh, pose=moved(0))
        body = scene.add_body(mesh, pose=moved(0.75))
        for shift in (0.5, 0.25):
            scene.step(poses={body: moved(shift)})


def labels_by_metric(server: conftest.Server) -> dict[str, set[str]]:
    text = Api(server.http)("GET", "/metrics").body.decode()
    found: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_query_names_what_the_server_has(make_server):
    server = make_server()
    use(server)
    Api(server.http).get("/healthz")
    known = labels_by_metric(server)
    for query in [*queries(), *(rule["expr"] for rule in rules())]:
        names = [match for match in OWN.finditer(query)]
        assert names or query.startswith("up{"), query
        here: set[str] = set()
        for name, selector in (match.groups() for match in names):
            assert name in known, f"{name} of {query}"
            here |= known[name]
            for label in re.findall(r"(\w+)\s*(?:=~|!=|=)", selector or ""):
                assert label in known[name] | GIVEN, f"{label} of {query}"
        for by in re.findall(r"\bby \(([^)]*)\)", query):
            assert {label.strip() for label in by.split(",")} <= here | GIVEN, query
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target.get("legendFormat", "")):
                assert label in set().union(*known.values()) | GIVEN, target


def test_a_query_about_nothing_would_be_noticed():
    assert OWN.search("rate(contactd_nothing_total[5m])").group(1) == "contactd_nothing_total"


class Prometheus:
    """A real one, that scrapes a server every second."""

    def __init__(self, folder: pathlib.Path, target: str):
        self.address = f"http://127.0.0.1:{free_port()}"
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(FOLDER / "contactd.rules.yml")]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={self.address.removeprefix('http://')}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip

    def get(self, path: str, **parameters: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.address}{path}?{urllib.parse.urlencode(parameters)}", timeout=conftest.PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # it is starting
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        except OSError:
            return None  # not there yet

    def series(self, query: str) -> list[dict[str, Any]]:
        data = self.get("/api/v1/query", query=query)
        return data["result"] if data else []


@pytest.fixture
def prometheus(make_server, tmp_path) -> Iterator[Prometheus]:
    needs.tools("prometheus")
    server = make_server()
    running = Prometheus(tmp_path, f"127.0.0.1:{server.http_port}")
    try:
        use(server)
        wait_until(lambda: running.series("rate(contactd_steps_total[1m])"), "two scrapes", 5 * conftest.PATIENCE)  # it has to start, too
        use(server)  # so that rates are above 0
        yield running
    finally:
        running.process.terminate()
        running.process.wait(conftest.PATIENCE)


def test_a_real_prometheus_answers_every_query(prometheus):
    wait_until(lambda: any(float(s["value"][1]) > 0 for s in prometheus.series("rate(contactd_steps_total[1m])")), "a rate above 0")
    for query in queries():
        assert wait_until(lambda query=query: prometheus.series(query), f"an answer to {query}")


def test_a_server_that_is_well_raises_no_alert(prometheus):
    def evaluated() -> bool:
        groups = (prometheus.get("/api/v1/rules") or {"groups": []})["groups"]
        return bool(groups) and all(rule["health"] == "ok" for rule in groups[0]["rules"])

    wait_until(evaluated, "rules that were evaluated")
    alerts = prometheus.get("/api/v1/alerts")["alerts"]
    assert [alert["labels"] for alert in alerts if alert["state"] == "firing"] == []


# ---- compose.yaml


def test_compose_mounts_what_exists_and_publishes_to_this_machine_alone():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for service in services.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert not source.startswith("..") or (COMPOSE.parent / source).exists(), mount
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert services["contactd"]["read_only"] is True
    assert (COMPOSE.parent / services["contactd"]["build"]["context"] / services["contactd"]["build"]["dockerfile"]).exists()
    source = yaml.safe_load((FOLDER / "grafana" / "datasources" / "prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in services
    assert dashboard()["panels"][0]["datasource"]["uid"] == source["uid"]


def test_the_server_of_compose_lets_prometheus_in(make_server, binaries):
    """With the options there, and the host that prometheus.yml asks for."""
    service = yaml.safe_load(COMPOSE.read_text())["services"]["contactd"]
    (target,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]["targets"]
    server = make_server(*service["command"], env=service["environment"], start=False)
    server.http_port = free_port()
    server.flags = (*server.flags, "--http", f"0.0.0.0:{server.http_port}")
    server.start()
    answer = Api(server.http)("GET", "/metrics", headers={"Host": target})
    assert answer.status == 200
    drain = int(service["command"][service["command"].index("--drain") + 1].removesuffix("s"))
    assert int(service["stop_grace_period"].removesuffix("s")) > drain + 3
