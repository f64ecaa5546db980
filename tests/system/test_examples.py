"""The examples as users run them: the naive form of a service is caught, the right one is VALID."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from harness.targets.linux import processes
from tests.support.require import KAFKA_JARS, require
from tests.support.tiers import at_turn, nightly

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_TIMEOUT_S = 240
"""Five times what a run takes on a quiet machine."""
NEEDS = {"shipments-java": ("kafka", "javac"), "tickets-go": ("franz-go",)}

pytestmark = pytest.mark.slow
_AT_NIGHT = nightly("system/test_examples.py::test_naive_form_is_caught_and_right_form_is_valid")


def built(example: str, folder: Path) -> Path:
    """A copy of an example in Go with its programs."""
    shutil.copytree(EXAMPLES / example, folder)
    for arguments in (("vet", "./..."), ("build", "-o", "bin/", "./...")):
        subprocess.run(["go", *arguments], cwd=folder, check=True, timeout=RUN_TIMEOUT_S)
    return folder


def judged(form: Path, store: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the verdict of `highwater test-app`; the programs run in the Python of the
    tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness.cli.main", "test-app", str(form)),
            *("--store", str(store), "--json", "--no-report", "--seed", "1", *options),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        env={**os.environ, "PATH": path, "KAFKA_HOME": str(KAFKA_JARS.parent)},
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@at_turn(
    3,
    4,
    "system/test_programs.py::test_program_keeps_its_claim_on_a_cluster_beside_zookeeper",
)
@pytest.mark.parametrize(
    ("example", "kind", "faults"),
    [
        ("bills", "duplicated-output", "app.kill"),
        pytest.param("ledger", "lost-output", "app.kill", marks=_AT_NIGHT),
        pytest.param("outbox", "lost-output", "pause,app.kill", marks=_AT_NIGHT),
        pytest.param("shipments-java", "duplicated-output", "app.kill", marks=_AT_NIGHT),
        pytest.param("tickets-go", "duplicated-output", "app.kill", marks=_AT_NIGHT),
    ],
)
def test_naive_form_is_caught_and_right_form_is_valid(
    example: str, kind: str, faults: str, tmp_path: Path
) -> None:
    """By the same faults. Nothing of the program is left running."""
    require("netns", *NEEDS.get(example, ()))
    options = ("--duration", "25", "--faults", faults)
    folder = built(example, tmp_path / "go") if example.endswith("-go") else EXAMPLES / example
    code, verdict = judged(folder / "naive.toml", tmp_path / "naive", *options)
    assert (code, verdict["verdict"]) == (1, "INVALID")
    forbidden = [a for a in verdict["anomalies"] if a["judgement"] == "forbidden"]
    assert {a["kind"] for a in forbidden} == {kind}
    assert "app.kill instance" in verdict["headline"]["program"] or "pause" in faults
    logs = Path(verdict["run"]) / "program"
    killed = (logs / "instance-1.log").read_text()
    assert "ended, SIGKILL, by a fault" in killed
    last = [int(line.split()[-1]) for line in killed.splitlines() if ", process " in line][-1]
    assert processes.is_gone(last)
    code, verdict = judged(folder / "right.toml", tmp_path / "right", *options)
    assert (code, verdict["verdict"]) == (0, "VALID"), verdict["reasons"]
    [promise] = [each for each in verdict["promises"] if each.get("program")]
    assert promise["records"] > 500
    assert promise["skipped"] == 0
    assert verdict["headline"]["program"] == ""


def test_right_form_of_bills_ends_when_a_call_of_the_library_hangs(tmp_path: Path) -> None:
    """As send_offsets_to_transaction of librdkafka may. Then it is started again."""
    stub = """
        import signal, threading
        from unittest.mock import MagicMock

        alarm = signal.alarm
        signal.alarm = lambda seconds: alarm(1)  # sooner

        class KafkaException(Exception):
            pass

        Consumer, Producer, TopicPartition = MagicMock(), MagicMock(), MagicMock()
        order = MagicMock(**{"error.return_value": None, "value.return_value": b'{"id": "1"}'})
        Consumer().consume.return_value = [order]
        Producer().send_offsets_to_transaction = lambda *arguments: threading.Event().wait()
    """
    (tmp_path / "confluent_kafka.py").write_text(textwrap.dedent(stub))
    names = ("BOOTSTRAP_SERVERS", "INPUT_TOPIC", "OUTPUT", "GROUP", "INSTANCE")
    done = subprocess.run(
        [sys.executable, EXAMPLES / "bills" / "right.py"],
        env={"PYTHONPATH": str(tmp_path), **{f"HIGHWATER_{name}": "1" for name in names}},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == -signal.SIGALRM, done.stderr
