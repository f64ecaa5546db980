"""The administrative commands as a user types them, against a detached cluster."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.support.clusters.cluster_command import Printed, called, facts, highwater
from tests.support.require import require
from tests.support.tiers import at_turn
from tests.system.test_cluster_command import is_clean


def run_command(*arguments: str | Path) -> Printed:
    """Run a command of `highwater cluster`: in this process, unless it starts or ends nodes."""
    if arguments[0] != "brokers":
        return called("cluster", *map(str, arguments))
    ended = highwater("cluster", *arguments)
    return Printed(ended.returncode, ended.stdout, ended.stderr)


def done(*arguments: str | Path) -> str:
    """Return what a successful command prints."""
    printed = run_command(*arguments)
    assert printed.code == 0, printed.err
    return printed.out


def refused(*arguments: str | Path) -> str:
    """Return the message of a refused command."""
    printed = run_command(*arguments)
    assert printed.code == 254, printed
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert printed.err.count("highwater: ") == 1
    return printed.err


@pytest.mark.slow
@at_turn(0, 2, "system/test_elasticity.py::test_brokers_come_and_go_under_load")
def test_detached_cluster_is_administered_by_its_name(tmp_path: Path) -> None:
    """Topics, settings, added and removed brokers, reassignments, and refusals."""
    require("root", "netns")
    up = highwater(
        *("cluster", "up", "--controllers", "1", "--brokers", "3", "--racks", "x,y,z"),
        *("--name", "administered", "--detach", "--store", tmp_path / "store"),
    )
    assert up.returncode == 0, up.stderr
    run = Path(facts(up.stdout)["run"])
    try:
        assert done("topics", "list", "--name", "administered") == ""
        assert "no cluster named other is up" in refused("topics", "list", "--name", "other")
        _topics_and_configs(run)
        _brokers(run, tmp_path)
    finally:
        highwater("cluster", "down", run)
    assert is_clean(run)


def _topics_and_configs(run: Path) -> None:
    made = ("--partitions", "6", "--replication-factor", "2", "--config", "min.insync.replicas=1")
    assert done("topics", "create", "a", *made, "--run", run) == "Created topic a.\n"
    assert done("topics", "list", "--run", run) == "a\n"
    head, *partitions = done("topics", "describe", "a", "--run", run).splitlines()
    assert re.fullmatch(
        r"Topic: a\tTopicId: [\w-]{22}\tPartitionCount: 6\tReplicationFactor: 2\t"
        r"Configs: .*min\.insync\.replicas=1.*",
        head,
    )
    assert len(partitions) == 6
    for line in partitions:
        assert re.fullmatch(
            r"\tTopic: a\tPartition: \d\tLeader: [234]\tReplicas: [234],[234]\t"
            r"Isr: [234](,[234])?\tElr: \tLastKnownElr: ",
            line,
        )
    assert done("topics", "describe", "--unavailable-partitions", "--run", run) == ""
    done("topics", "alter", "a", "--partitions", "8", "--config", "retention.ms=1000", "--run", run)
    printed = done("configs", "describe", "topics", "a", "--run", run)
    assert "Dynamic configs for topic a are:\n" in printed
    assert "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in printed
    done("configs", "alter", "topics", "a", "--delete-config", "retention.ms", "--run", run)
    assert "retention.ms" not in done("configs", "describe", "topics", "a", "--run", run)

    printed = refused("topics", "create", "b", "--replication-factor", "9", "--run", run)
    assert "topic b: INVALID_REPLICATION_FACTOR" in printed
    assert "TOPIC_ALREADY_EXISTS" in refused("topics", "create", "a", "--run", run)
    assert done("topics", "create", "a", "--if-not-exists", "--run", run) == ""
    assert "topic nope does not exist" in refused("topics", "describe", "nope", "--run", run)
    assert "nothing was deleted" in refused("topics", "delete", "a", "nope", "--run", run)
    assert "INVALID_PARTITIONS" in refused(
        "topics", "alter", "a", "--partitions", "3", "--run", run
    )


def _placement(run: Path) -> dict[int, list[int]]:
    (topic,) = json.loads(done("topics", "describe", "a", "--json", "--run", run))
    return {each["partition"]: each["replicas"] for each in topic["partitions"]}


def _brokers(run: Path, place: Path) -> None:
    added = json.loads(done("brokers", "add", "--count", "1", "--json", "--run", run))
    assert added["added"] == [5]
    held = Counter(node for replicas in _placement(run).values() for node in replicas)
    assert held == {2: 4, 3: 4, 4: 4, 5: 4}
    assert added["moved_replicas"] == 4

    rows: list[dict[str, Any]] = json.loads(done("brokers", "list", "--json", "--run", run))[
        "brokers"
    ]
    assert [(row["id"], row["rack"]) for row in rows] == [(2, "x"), (3, "y"), (4, "z"), (5, "x")]

    before = _placement(run)
    file = place / "move.json"
    moved = {"topic": "a", "partition": 0, "replicas": before[0][::-1]}
    file.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    printed = done("reassign", "execute", "--reassignment-json-file", file, "--run", run)
    assert "Successfully started partition reassignment for a-0\n" in printed
    printed = done("reassign", "verify", "--reassignment-json-file", file, "--run", run)
    assert "Reassignment of partition a-0 is completed.\n" in printed
    assert done("reassign", "list", "--run", run) == "No partition reassignments found.\n"
    assert (
        "successfully"
        in done(
            *("elect-leaders", "--election-type", "preferred", "--topic", "a", "--partition", "0"),
            *("--run", run),
        ).lower()
    )

    removed = json.loads(done("brokers", "remove", "2", "--json", "--run", run))
    assert removed["removed"] == [2]
    after = _placement(run)
    held = Counter(node for replicas in after.values() for node in replicas)
    assert sorted(held) == [3, 4, 5]
    assert max(held.values()) - min(held.values()) <= 1
    assert all(len(replicas) == 2 for replicas in after.values())
    printed = refused("brokers", "remove", "3", "4", "--run", run)
    assert "a-0 has 2 replicas and only 1 brokers would be left for them" in printed
    assert "no broker 1" in refused("brokers", "remove", "1", "--run", run)
    file.write_text("{")
    arguments = ("reassign", "execute", "--reassignment-json-file", file, "--run", run)
    assert "is no JSON" in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topics", "list", "--bootstrap-servers", "nobody"), "is no host:port"),
        (("topics", "create", "a", "--partitions", "0"), "must be from 1"),
        (("topics", "create", "a", "--config", "x"), "is no KEY=VALUE"),
        (("topics", "create", "a", "--replica-assignment", "1:1"), "names a broker twice"),
        (("topics", "alter", "a"), "nothing to alter"),
        (("configs", "describe", "brokers", "one"), "give the number of the broker"),
        (("elect-leaders", "--election-type", "unclean"), "name the partitions: --topic"),
        (("reassign", "verify", "--reassignment-json-file", "nowhere"), "cannot be read"),
        (("brokers", "remove", "1", "1"), "is named twice"),
        (
            ("brokers", "add", "--bootstrap-servers", "h:1"),
            "cannot start brokers of a cluster that it does not run",
        ),
        (("groups", "list", "--state", "emty"), "did you mean empty?"),
        (("groups", "list", "--type", "x"), "none of Classic, Consumer"),
        (("groups", "reset-offsets", "g", "--to-latest"), "--all-topics, or --topic"),
        (("groups", "reset-offsets", "g", "--all-topics"), "give one of --to-earliest"),
        (
            ("groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--shift-by", "1"),
            "give one of --to-earliest",
        ),
        (
            ("groups", "reset-offsets", "g", "--topic", "a:", "--to-latest"),
            "for some partitions",
        ),
        (
            ("groups", "reset-offsets", "g", "--topic", "a", "--by-duration", "x"),
            "write PnDTnHnMnS",
        ),
        (("groups", "delete-offsets", "g"), "name the topics"),
        (("transactions", "list", "--state", "open"), "none of Empty, Ongoing"),
        (
            ("transactions", "list", "--transactional-id-pattern", "a("),
            "--transactional-id-pattern 'a('",
        ),
        (("transactions", "find-hanging", "--partition", "0"), "--partition needs --topic"),
        (("transactions", "abort", "--topic", "a", "--partition", "0"), "name the transaction"),
        (
            (
                *("transactions", "abort", "--topic", "a", "--partition", "0"),
                *("--start-offset", "1", "--producer-id", "2"),
            ),
            "name the transaction",
        ),
        (("up", "--controllers", "2"), "together with --brokers"),
        (("topics", "list", "--run", "nowhere"), "no such run directory"),
        (("topics", "list", "--run", "x", "--name", "y"), "not both"),
        (("topics", "list", "--bootstrap-servers", "h:1", "--name", "y"), "not both"),
    ],
)
def test_wrong_arguments_are_refused_before_any_request(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 254, with one message and nothing on stdout."""
    with pytest.raises(SystemExit) as ended:
        main(["cluster", *arguments])
    assert ended.value.code == 254
    out, error = capsys.readouterr()
    assert message in error
    assert error.count("highwater: ") == 1
    assert out == ""


def test_unreachable_cluster_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 255: the arguments may be right."""
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "topics", "list", "--bootstrap-servers", "127.0.0.1:1"])
    assert ended.value.code == 255
    error = capsys.readouterr().err
    assert "cannot connect to 127.0.0.1:1" in error
    assert "is a cluster up at 127.0.0.1:1?" in error
