"""Recorded answers about leader epochs that were altered are found, whichever answer it is."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from harness.judging import judge
from tests.support.checkers.tampering.runs import KEPT

Row = dict[str, Any]


def altered(run: Path, into: Path, bend: Callable[[list[Row]], None]) -> dict[str, Any]:
    """The verdict on a copy of the run whose answers about epochs were bent."""
    shutil.copytree(run, into, ignore=shutil.ignore_patterns("nodes"))
    path = into / "cluster.parquet"
    table = pyarrow.parquet.read_table(path)
    rows = table.to_pylist()
    answers = [row for row in rows if row["kind"] == "epoch"]
    answers.sort(key=lambda row: (row["topic"], row["partition"], row["leader_epoch"]))
    bend(answers)
    kept = [row for row in rows if row["kind"] != "epoch" or row["leader_epoch"] is not None]
    pyarrow.parquet.write_table(pa.Table.from_pylist(kept, table.schema), path)
    return judge.check(into)


def found(verdict: dict[str, Any]) -> set[tuple[str, int, str]]:
    """Where answers are contradicted, and by what."""
    return {
        (each["topic"], each["partition"], each["aspect"])
        for each in verdict["anomalies"]
        if (each["kind"], each["judgement"]) == ("contradicted-evidence", "forbidden")
    }


def moved(number: int, by: int) -> Callable[[list[Row]], None]:
    """The start of one epoch, moved by some offsets; the end of the one before moves with it."""

    def bend(answers: list[Row]) -> None:
        answers[number]["start_offset"] += by
        if number and answers[number - 1]["topic"] == answers[number]["topic"]:
            answers[number - 1]["end_offset"] += by

    return bend


def forgotten(number: int) -> Callable[[list[Row]], None]:
    """One epoch is left out."""

    def bend(answers: list[Row]) -> None:
        answers[number]["leader_epoch"] = None

    return bend


ACKS_ALL_0 = ("acks-all", 0)
BENDS = {
    "begins later": (moved(4, 1), ("files", "reads")),
    "begins earlier": (moved(4, -1), ("files", "reads")),
    "is left out": (forgotten(4), ("files", "reads")),
}


@pytest.mark.parametrize("name", sorted(BENDS))
def test_altered_answer_about_an_epoch_is_contradicted(
    name: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    """Epoch 1 of a partition, by its files and by the final reads; other partitions are fine."""
    bend, sources = BENDS[name]
    verdict = altered(runs[KEPT], tmp_path / "run", bend)
    assert verdict["verdict"] == "INVALID"
    assert found(verdict) == {(*ACKS_ALL_0, source) for source in sources}


def test_unaltered_answers_are_not_contradicted(runs: dict[str, Path], tmp_path: Path) -> None:
    """Near miss: the rows as they were recorded, in another order."""
    verdict = altered(runs[KEPT], tmp_path / "run", lambda answers: None)
    assert verdict["verdict"] == "VALID"
    assert not found(verdict)
