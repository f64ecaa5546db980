"""Checks that a plan's program can be started here, before anything is started."""

import os
import shutil
from pathlib import Path

from harness.plans import workload_topics
from harness.plans.app_workload import AppWorkload
from harness.plans.errors import PlanError
from harness.plans.plan import Plan
from harness.workloads.app import environment
from harness.workloads.app.outputs.sql import engine_of


def check(plan: Plan) -> None:
    """Check the programs of a plan. Raises PlanError."""
    for program in workload_topics.programs(plan):
        _check_program(program, f"plan {plan.name}: app")


def _check_program(program: AppWorkload, where: str) -> None:
    directory = Path(program.directory)
    if not directory.is_dir():
        raise PlanError(f"{where}.directory: there is no directory {directory}")
    try:
        environment.check(program.command, program.environment)
    except ValueError as error:
        raise PlanError(f"{where}: {error}") from error
    _check_command(program, directory, where)
    if program.sink.file is not None and not (folder := Path(program.sink.file).parent).is_dir():
        raise PlanError(f"{where}: output.file: there is no directory {folder}; make it")
    if program.sink.sql is not None:
        try:
            engine_of(program.sink.sql).dispose()
        except ValueError as error:
            raise PlanError(f"{where}: {error}") from error


def _check_command(program: AppWorkload, directory: Path, where: str) -> None:
    """Check that the command is there; one with a slash is relative to the program's directory."""
    name = program.command[0]
    if os.sep not in name:
        path = program.environment.get("PATH", os.environ.get("PATH"))
        if shutil.which(name, path=path) is None:
            raise PlanError(
                f"{where}.command: there is no program {name} on the PATH; install it, or give its "
                "path"
            )
        return
    found = directory / name
    if not found.is_file():
        raise PlanError(f"{where}.command: there is no program {found}")
    if not os.access(found, os.X_OK):
        raise PlanError(f"{where}.command: {found} may not be executed; run `chmod +x {found}`")
