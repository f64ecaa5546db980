"""The command as a person runs it: refusals, a whole benchmark in small, Ctrl-C."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from harness import journal
from harness.bench import results
from harness.bench.points import Measure, Sweep
from harness.bench.results import CLIENT_ALONE
from tests.harness.cluster_command import PATIENCE_S, command, highwater
from tests.require import require


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "measure 'speed': there is only latency"),
        (["--system", "kafka"], "--system kafka: write NAME=HOST:PORT"),
        (["--acks", "2"], "--acks 2: is none of 0, 1, all"),
        (["--rounds", "0"], "--rounds 0: must be above zero"),
        (["--baseline", "none.json"], "none.json: cannot be read"),
        (["failover", "--system", "k=127.0.0.1:1"], "only the built-in cluster allows"),
        (["latency", "--system", "k=127.0.0.1:1"], "k: cannot connect to 127.0.0.1:1"),
    ],
)
def test_bad_arguments_are_a_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 254, one line, nothing started."""
    ended = highwater("bench", *arguments, "--store", tmp_path / "store")
    assert ended.returncode == 254, ended.stderr
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert ended.stdout == ""


def journals_are_finished(store: Path) -> bool:
    """Whether everything that was made is undone, and no node's data is left."""
    paths = list(store.rglob("journal.jsonl"))
    undone = [journal.read(path)[-1]["kind"] == journal.UNDONE for path in paths]
    return bool(paths) and all(undone) and not list(store.glob("**/nodes/*/data"))


@pytest.mark.slow
def test_whole_benchmark_in_small(tmp_path: Path) -> None:
    """Every kind of measure on a real cluster, by both clients; files written, nothing left."""
    require("netns")
    ended = highwater(
        "bench", "latency", "producer-throughput", "consumer-throughput", "controlled-shutdown",
        "controller-failover", "--quick", "--duration", "0.1", "--acks", "all",
        "--client", "raw", "--client", "librdkafka", "--partitions", "6",
        "--json", tmp_path / "r.json", "--html", tmp_path / "r.html", "--store", tmp_path / "store",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    made = results.load(tmp_path / "r.json")
    assert made.failures == []
    assert {point.measure for point in made.points} == set(Measure) - {Measure.FAILOVER}
    for point in made.points:
        quantity = "p50_ms" if point.measure is Measure.LATENCY else None
        name = quantity or ("gap_ms" if point.sweep is Sweep.PARTITIONS else "mb_per_s")
        found = made.spread(point, "highwater", name)
        assert found is not None, point
        assert found.median > 0, point
    assert any(sample.system == CLIENT_ALONE and sample.values for sample in made.samples)
    assert "<svg" in (tmp_path / "r.html").read_text()
    assert journals_are_finished(tmp_path / "store")


@pytest.mark.slow
def test_ctrl_c_ends_in_order(tmp_path: Path) -> None:
    """What was measured so far is kept and said to be part of it; the cluster is removed."""
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
