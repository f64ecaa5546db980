"""Spark sees what the embedded engine sees, in the same words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from checkers.engines.engine import Engine
from harness.judging import judge
from tests.support.checkers.small_spark import BriefSparkEngine
from tests.support.checkers.tampering.changes import all_changes
from tests.support.checkers.tampering.judging import judged
from tests.support.checkers.tampering.runs import KEPT
from tests.support.tiers import in_turn

EVERY = {each.name: each for each in all_changes()}

ON_SPARK = (
    "the monitor's file: gone",
    "the replicas' file: cut in half",
    "plan.json: '{}'",
    "plan: acks 0",
    "run.json: settled is False",
    "run.json: plan_digest is ''",
    "history: no assign",
    "history: a send less",
    "history: no poll of a topic",
    "history: every poll never completed",
    "history: the polls of one number",
    "history: offset of a watermark the greatest",
    "cluster: no leader of a partition",
    "faults: none took effect",
    "replicas: none of a partition of a node",
    "replica_ends: none of a node",
)


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/tampering/test_on_spark.py::test_tampering_is_seen_on_spark", ON_SPARK, of=16
    ),
)
def test_tampering_is_seen_on_spark(
    name: str,
    runs: dict[str, Path],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never VALID."""
    embedded = judged(runs[KEPT], EVERY[name], tmp_path)

    @contextmanager
    def on_spark(*_: object) -> Iterator[Engine]:
        engine = BriefSparkEngine(spark)
        yield engine
        engine.close()

    monkeypatch.setattr(judge, "open_engine", on_spark)
    assert judged(runs[KEPT], EVERY[name], tmp_path) == embedded
    assert embedded.outcome != "VALID"


def test_there_are_enough() -> None:
    """Of every sort some."""
    assert len(ON_SPARK) >= 15
    assert EVERY.keys() >= set(ON_SPARK)
