"""Makes runs: in a process of its own, as the command line makes them.

A run makes network namespaces and handles signals, and a user who is not root runs it in a user
namespace. None of that may happen to the process that asks for it, a notebook for example.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater._errors import InvalidPlan, RunFailed
from highwater._runs import Run, load

if TYPE_CHECKING:
    from harness.plans.plan import Plan

BAD_ARGUMENTS: Final = 254
KEPT_LINES: Final = 50
PREFIX: Final = "highwater: "


def run(
    plan: Plan | str,
    *,
    store: str | os.PathLike[str] = "store",
    report: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Start a cluster, break it as the plan says, judge what its clients saw; return the run.

    `plan` is a plan, or the name of a packaged one or of a TOML file. The run is stored under the
    folder `store`. `progress` gets lines of text while the run goes on. A plan for target `sim`
    runs in the simulator. Raises InvalidPlan before anything is started, and RunFailed when the
    harness could not do its work. A run that violates the contract is no error: see its verdict.

    Example:
        >>> plan = highwater.plan("acks-1-leader-cut-off", target="sim", duration_s=9, seed=7)
        >>> run = highwater.run(plan, store=STORE, report=False)
        >>> run.verdict.outcome, run.verdict.lost[0].judgement
        ('VALID', 'permitted')
    """
    made = _plan(plan)
    with tempfile.TemporaryDirectory(prefix="highwater-plan-") as scratch:
        path = Path(scratch, f"{made.name}.toml")
        path.write_bytes(_as_toml(made))
        command = [*_command(made, path), "--store", os.fspath(store), "--json"]
        if made.target != "sim" and not report:
            command.append("--no-report")
        code, output, told = _outcome([sys.executable, "-m", "harness.cli", *command], progress)
    return _run_of(code, output, told)


def _plan(plan: Plan | str) -> Plan:
    from highwater import _plans

    return _plans.plan(plan) if isinstance(plan, str) else plan


def _as_toml(plan: Plan) -> bytes:
    """The plan with its secrets: the file is readable by this user only, and removed at the end."""
    import tomli_w

    values: dict[str, Any] = plan.model_dump(mode="python", exclude_none=True)
    for event in values["nemesis"]["events"]:
        event.pop("id", None)
    return tomli_w.dumps(values).encode()


def _command(plan: Plan, path: Path) -> list[str]:
    if plan.target == "sim":
        seeds = f"{plan.seed}..{plan.seed}"
        return ["simulate", str(path), "--seeds", seeds, "--jobs", "1", "--trace"]
    return ["run", str(path)]


def _outcome(
    command: list[str], progress: Callable[[str], None] | None
) -> tuple[int, str, tuple[str, ...]]:
    """Run a command; return its exit code, its output, and the last lines that it told."""
    told: deque[str] = deque(maxlen=KEPT_LINES)
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stderr is not None
            for line in process.stderr:
                told.append(line.rstrip("\n"))
                if progress is not None:
                    progress(told[-1])
            code = process.wait()
        except BaseException:
            # The run heals its faults and removes what it made.
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        output.seek(0)
        return code, output.read(), tuple(told)


def _run_of(code: int, output: str, told: tuple[str, ...]) -> Run:
    last = "\n".join(line.removeprefix(PREFIX) for line in told[-5:])
    if code == BAD_ARGUMENTS:
        raise InvalidPlan(last.removesuffix("\nTry `highwater --help`."))
    try:
        answer = json.loads(output)
        path = Path(answer["run"])
    except (ValueError, KeyError, TypeError):
        raise RunFailed(last or f"the run ended with {code}", output=told) from None
    if answer.get("outcome") == "FAILED":
        raise RunFailed("; ".join(answer["reasons"]), output=told)
    return load(path)
