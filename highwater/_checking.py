"""Judges stored runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from highwater._errors import translated
from highwater._runs import Run
from highwater._verdicts import Verdict


def check(
    run: Run | str | os.PathLike[str],
    *,
    expect: Sequence[str] = (),
    engine: Literal["duckdb", "spark"] = "duckdb",
    report: bool = False,
) -> Verdict:
    """Judge a stored run again, store the verdict beside it, and return it.

    `expect` holds bounds in addition to the plan's own, such as `lost.acks-all = 0`. With `report`
    the page of the run is written as well. Raises RunUnreadable, InvalidRequest and
    EngineUnavailable.

    Example:
        >>> verdict = highwater.check(RUN)
        >>> verdict.outcome
        'INVALID'
        >>> verdict.reasons[0].partition(" (")[0]
        '1 divergent-replicas in none-0'
    """
    from harness.judging import judge

    path = run.path if isinstance(run, Run) else Path(run)
    with translated():
        found = judge.check(path, engine, expect)
        if report:
            judge.write_report(path)
    return Verdict._of(found)
