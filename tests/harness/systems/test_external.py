"""Runs on a cluster that somebody else runs: brokers in the test's own process, and the command."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.plans.plan import External, Plan, PlanError, Topic, build
from harness.plans.properties import REDACTED
from harness.run.prepare import prepare
from harness.targets.external import ExternalKind as Kind
from nemesis.faults.catalogue import FAULTS
from tests.support.clusters.cluster_command import highwater
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes import certificates
from tests.support.nodes.cluster import Cluster
from tests.support.nodes.secured import PASSWORD, USER, SecuredCluster
from tests.support.tiers import in_turn

SERVERS = "kafka.example:9092"
PLAN = """
name = "theirs"
duration_s = 2
warmup_s = 0.5
[[topics]]
name = "ours"
acks = "all"
partitions = 2
replication_factor = 1
min_insync_replicas = 1
[workload]
producers = 1
rate_per_s = 50
"""


def run(
    folder: Path, servers: str, more: str = "", *flags: str
) -> subprocess.CompletedProcess[str]:
    """`highwater run` of the plan above."""
    (folder / "plan.toml").write_text(PLAN + more)
    store = ("--store", folder / "store", "--bootstrap-servers", servers)
    return highwater("run", folder / "plan.toml", *store, *flags)


@pytest.mark.parametrize(
    "client",
    in_turn(
        "harness/systems/test_external.py"
        "::test_secured_external_cluster_is_judged_and_left_as_it_was",
        ["librdkafka", "own", "kafka-python", "aiokafka"],
        of=4,
    ),
)
def test_secured_external_cluster_is_judged_and_left_as_it_was(tmp_path: Path, client: str) -> None:
    """Every client connects and can be paused; no stored file has the password; no topic stays."""
    files = certificates.make(tmp_path)
    properties = f"""
[external.properties]
"security.protocol" = "SASL_SSL"
"ssl.ca.location" = "{files.authority}"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "{USER}"
"sasl.password" = "{PASSWORD}"
[nemesis]
events = [{{ at_ms = 500, fault = "pause.clients", duration_ms = 300 }}]
"""
    cluster = SecuredCluster(1, files)
    with serving(cluster) as servers:
        first = run(tmp_path, servers, properties, "--client", client)
        again = run(tmp_path, servers, properties, "--client", client)
    assert first.returncode == again.returncode == 0, first.stderr + first.stdout + again.stderr
    assert "its brokers' files are not read" in first.stderr
    stored = tmp_path / "store" / "latest"
    plan = json.loads((stored / "plan.json").read_text())
    assert plan["external"]["properties"]["sasl.password"] == REDACTED
    verdict = json.loads((stored / "verdict.json").read_text())
    assert verdict["topics"][0]["acked"] > 20
    open_parts = [each["name"] for each in verdict["assumptions"] if not each["holds"]]
    assert open_parts == ["the replicas' files were compared"]
    for path in stored.rglob("*"):
        if path.is_file():
            assert f'"{PASSWORD}"'.encode() not in path.read_bytes(), path


def test_existing_topic_is_refused(tmp_path: Path) -> None:
    """The run does not begin, and the topic stays as it is."""
    with serving(Cluster(1), ours=1) as servers:
        done = run(tmp_path, servers)
    assert (done.returncode, done.stdout) == (254, "")
    assert "topic ours exists on the external cluster already" in done.stderr
    assert not (tmp_path / "store").exists()


def test_unreachable_cluster_gives_one_line(tmp_path: Path) -> None:
    """The exit code is 255, and there is no run."""
    done = run(tmp_path, "127.0.0.1:1")
    assert done.returncode == 255
    assert done.stderr.startswith(
        "highwater: cannot connect to the external cluster at 127.0.0.1:1"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_wrong_password_gives_the_brokers_error(tmp_path: Path) -> None:
    """The exit code is 255, and the password is not shown."""
    files = certificates.make(tmp_path)
    properties = f"""
[external.properties]
"security.protocol" = "SASL_SSL"
"ssl.ca.location" = "{files.authority}"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "{USER}"
"sasl.password" = "not the password"
"""
    with serving(SecuredCluster(1, files)) as servers:
        done = run(tmp_path, servers, properties)
    assert done.returncode == 255
    assert f"user '{USER}' was refused: Authentication failed" in done.stderr
    assert "not the password" not in done.stderr
    assert done.stderr.count("\n") == 1


def external(**properties: str) -> Plan:
    """A plan for a cluster that is asked nothing."""
    return Plan(
        seed=1,
        system="external",
        external=External(bootstrap_servers=SERVERS, properties=properties),
        topics=(Topic(name="t", acks=1, replication_factor=5, min_insync_replicas=1),),
    )


def test_replication_factor_is_not_checked_against_the_plans_nodes() -> None:
    """The cluster itself refuses what it cannot do."""
    assert prepare(external()).plan.topics[0].replication_factor == 5


def test_bootstrap_servers_flag_means_an_external_cluster() -> None:
    """The plan's client properties stay."""
    raw = {"external": {"bootstrap_servers": "a:1", "properties": {"client.rack": "b"}}}
    plan = build(raw, where="p", flags={"bootstrap_servers": SERVERS})
    assert plan.system == "external"
    assert plan.external == External(bootstrap_servers=SERVERS, properties={"client.rack": "b"})


@pytest.mark.parametrize(
    "raw", [{"system": "external"}, {"external": {"bootstrap_servers": "a:1"}}]
)
def test_system_external_and_its_address_go_together(raw: dict[str, object]) -> None:
    """Which cluster, or that it is theirs."""
    with pytest.raises(PlanError, match="go together"):
        prepare(build(raw, where="p"))


def test_target_is_refused_for_an_external_cluster() -> None:
    """Otherwise it would be ignored silently."""
    with pytest.raises(PlanError, match="leave the target out"):
        prepare(external().model_copy(update={"target": "docker"}))


def test_secrets_are_read_from_the_environment_and_never_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A repeated run asks for the secrets that the stored plan lacks."""
    monkeypatch.setenv("THEIRS", "secret")
    plan = external(**{"sasl.password": "env:THEIRS", "ssl.key.password": "as it is"})
    assert plan.external is not None
    assert plan.external.resolved()["sasl.password"] == "secret"
    stored = Plan.from_json(plan.to_json(), "p").external
    assert stored is not None
    assert stored.properties == {"sasl.password": "env:THEIRS", "ssl.key.password": REDACTED}
    with pytest.raises(PlanError, match=r"ssl.key.password was left out when the plan was stored"):
        stored.resolved()
    monkeypatch.delenv("THEIRS")
    with pytest.raises(PlanError, match="this environment variable is not set; export THEIRS"):
        plan.external.resolved()


def test_only_faults_of_clients_and_programs_are_possible() -> None:
    """Every other fault is refused, or left out with --nemesis auto."""
    able = {f.name for f in FAULTS.values() if not Kind().missing_abilities(f.needs)}
    needs_libfaketime = {"app.clock"}
    assert able - needs_libfaketime == {"pause.clients", "app.kill", "app.pause"}
