"""Spark's settings follow the length of what it is to read."""

import os
from pathlib import Path

from checkers.engines.spark_sessions import BYTES_PER_PART, LEAST_PARTS, PARTS_UNTOLD, sized

PARTS = "spark.sql.shuffle.partitions"
COMPILED = "spark.sql.codegen.wholeStage"


def _run(folder: Path, *sizes: int) -> Path:
    """A run with history files of so many bytes, which take no room on the disk."""
    (folder / "history").mkdir(parents=True)
    for number, size in enumerate(sizes):
        path = folder / "history" / f"{number}.parquet"
        path.touch()
        os.truncate(path, size)
    return folder


def test_a_little_history_is_cut_into_as_few_parts_as_can_be(tmp_path: Path) -> None:
    """And nothing is compiled for it."""
    settings = sized([_run(tmp_path / "run", 1000, BYTES_PER_PART)])
    assert settings[PARTS] == str(LEAST_PARTS)
    assert settings[COMPILED] == "false"
    assert sized([]) == settings


def test_the_longest_history_decides(tmp_path: Path) -> None:
    """All its files count."""
    little = _run(tmp_path / "little", 1000)
    long = _run(tmp_path / "long", 70 * BYTES_PER_PART, 30 * BYTES_PER_PART)
    settings = sized([long, little])
    assert settings[PARTS] == "100"
    assert COMPILED not in settings


def test_history_at_an_address_counts_as_long() -> None:
    """It is taken for a long one."""
    assert sized(["s3a://bucket/run"])[PARTS] == str(PARTS_UNTOLD)
