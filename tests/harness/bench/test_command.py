"""`highwater bench` as a user runs it: refusals, a small benchmark, Ctrl-C."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from harness.bench import results
from harness.bench.points import QUANTITIES, Client
from harness.bench.results import CLIENT_ALONE
from harness.cli import main
from harness.recording import journal
from tests.support.clusters.cluster_command import PATIENCE_S, command
from tests.support.require import require
from tests.support.tiers import at_turn


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "measure 'speed': is none of latency"),
        (["--system", "redpanda"], "--system redpanda: write NAME=HOST:PORT"),
        (["--system", "kafka", "--kafka-home", "none"], "none"),
        (["--acks", "2"], "--acks 2: is none of 0, 1, all"),
        (["--rounds", "0"], "--rounds 0: must be above zero"),
        (["--baseline", "none.json"], "none.json: cannot be read"),
        (["failover", "--system", "k=127.0.0.1:1"], "needs a cluster that the benchmark starts"),
        (
            ["latency", "--system", "k=127.0.0.1:1"],
            "k: no broker answers: cannot connect to 127.0.0.1:1",
        ),
    ],
)
def test_bad_arguments_end_with_254_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Nothing is started or printed on stdout."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main.main(["bench", *arguments, "--store", str(tmp_path / "store")])
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    printed = capsys.readouterr()
    assert ended.value.code == 254, printed.err
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""


def journals_are_finished(store: Path) -> bool:
    """Return whether all journals are finished and no node's data is left."""
    paths = list(store.rglob("journal.jsonl"))
    undone = [journal.read(path)[-1]["kind"] == journal.UNDONE for path in paths]
    return bool(paths) and all(undone) and not list(store.glob("**/nodes/*/data"))


def ended_well(*arguments: str | Path) -> None:
    """Run a benchmark to its end; press Ctrl-C at the bound, so that nothing is left."""
    with subprocess.Popen(
        command("bench", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=2 * PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
        assert process.returncode == 0, said


@pytest.mark.slow
@at_turn(
    0, 2, "harness/bench/test_command.py::test_ctrl_c_keeps_the_samples_and_removes_the_cluster"
)
def test_small_benchmark_measures_everything_and_leaves_nothing(tmp_path: Path) -> None:
    """Every kind of measure on a real cluster, by both clients."""
    require("netns")
    store = tmp_path / "store"
    ended_well(
        "latency", "producer-throughput", "consumer-throughput", "controlled-shutdown",
        "--quick", "--duration", "0.1", "--acks", "0", "--acks", "all", "--client", "raw",
        "--client", "librdkafka", "--messages-per-send", "100", "--producers", "2", "--fetch-kb",
        "100", "--partitions", "6", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html",
        "--store", store,
    )  # fmt: skip
    made = results.load(tmp_path / "r.json")
    assert made.failures == []  # this includes the check of librdkafka's batches
    measured = set()
    for point in made.points:
        for quantity in QUANTITIES[point.measure]:
            found = made.spread(point, "highwater", quantity.name)
            assert found is not None, point
            assert found.median > 0, point
        measured.add((point.measure, point.client))
    assert len(measured) == 3 * len((Client.RAW, Client.LIBRDKAFKA)) + 1
    assert any(sample.system == CLIENT_ALONE and sample.values for sample in made.samples)
    assert "<svg" in (tmp_path / "r.html").read_text()
    assert journals_are_finished(store)


@pytest.mark.slow
@at_turn(
    1,
    2,
    "harness/bench/test_command.py::test_small_benchmark_measures_everything_and_leaves_nothing",
)
def test_ctrl_c_keeps_the_samples_and_removes_the_cluster(tmp_path: Path) -> None:
    """The result is marked as stopped."""
    require("netns")
    store = tmp_path / "store"
    with subprocess.Popen(
        command("bench", "latency", "--duration", "2", "--store", store),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "/" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(PATIENCE_S) == 2, said
    (path,) = store.glob("bench/*/bench.json")
    assert json.loads(path.read_text())["stopped"] is True
    assert journals_are_finished(store)
