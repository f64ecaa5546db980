"""How commands check a plan and run it: `highwater run` and `highwater test-app`."""

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness.cli.base import (
    BAD_ARGUMENTS,
    HARNESS_FAILED,
    Exit,
    clean_up_killed_runs,
    on_signals,
    warn,
)

if TYPE_CHECKING:
    from harness.plans.plan import Plan
    from harness.run.prepare import Prepared
    from harness.run.teardown import EndOptions
    from nemesis.schedule import Schedule


def prepared(
    plan: str | None, flags: dict[str, Any], replay: Path | None, *, resolved: bool, refuse: bool
) -> "Prepared":
    """Return the plan, checked against everything that is known before a start."""
    from harness.plans import plan as planning
    from harness.plans import repeat

    if replay is not None:
        made, schedule = repeat.load(replay, plan, flags, resolved=resolved)
    elif resolved:
        raise planning.PlanError("--resolved is for --replay: name the run to repeat")
    else:
        where = f"plan {plan or planning.FIRST_LIGHT}"
        made = planning.build(planning.load(plan), where=where, flags=flags)
        schedule = None
    return checked(made, schedule, refuse=refuse)


def checked(made: "Plan", schedule: "Schedule | None" = None, *, refuse: bool) -> "Prepared":
    """Return a plan, checked against everything that is known before a start. Raises PlanError."""
    from harness.run import prepare
    from harness.systems import choose
    from harness.targets import kinds
    from harness.workloads.app import check as program
    from harness.workloads.clients import libraries
    from nemesis.faults.fault import Ability

    prepare.check_system(made)
    kind = kinds.kind_of(made)
    choose.check(made)
    libraries.check(made)
    program.check(made)
    # All abilities, not only those that the plan needs: the report says what the target can do.
    lacks = kind.missing_abilities(Ability)
    return prepare.prepare(made, schedule=schedule, lacks=lacks, refuse=refuse)


def show(prepared: "Prepared", as_json: bool) -> NoReturn:
    """Print what the run would do; exit with 254 when it would be refused."""
    from harness.run import dry_run

    if as_json:
        print(json.dumps(dry_run.as_json(prepared), indent=2))
    else:
        print(dry_run.text(prepared))
    raise Exit(0 if prepared.refusal is None else BAD_ARGUMENTS)


def run(
    prepared: "Prepared", root: Path, ending: "EndOptions", report: bool, as_json: bool, debug: bool
) -> NoReturn:
    """Run the plan, print its verdict, and exit with the code of it."""
    from harness.judging import judge
    from harness.reports import summary, terminal
    from harness.run import progress
    from harness.run.runner import Runner
    from harness.systems import choose
    from harness.targets import kinds

    kinds.kind_of(prepared.plan).ensure_privileges()
    ending.check_privileges()
    choose.reach(prepared.plan)
    clean_up_killed_runs()
    for risk in prepared.risks:
        warn(f"warning: {risk.text}")
    for note in prepared.notes:
        warn(note)
    with progress.for_terminal(prepared.plan) as shown:
        runner = Runner(prepared, root=root, progress=shown, with_report=report, ending=ending)
        on_signals(runner.stop)
        outcome = runner.run()
    run_dir = outcome.run.path
    if outcome.verdict is None:
        if debug and outcome.error is not None:
            traceback.print_exception(outcome.error)
        warn(
            f"the run failed in phase {outcome.failed_phase!r}: {message(outcome.error)}\n"
            f"The recording is in {run_dir}. See harness.log there; `highwater check {run_dir}` "
            "judges what was recorded."
        )
    elif as_json:
        print(json.dumps({"run": str(run_dir), **outcome.verdict}))
    else:
        summary.print_verdict(terminal.console(), outcome.verdict, run_dir, outcome.report)
    if outcome.left:
        print("\n".join(outcome.left), file=sys.stderr)
    code = HARNESS_FAILED
    if outcome.verdict is not None:
        code = judge.exit_code(outcome.verdict)
    raise Exit(code)


def message(error: BaseException | None) -> str:
    """Return what an error says, or its name."""
    return str(error) or type(error).__name__
