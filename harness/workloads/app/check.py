"""Checks that a plan's program can be started here, before anything is started."""

import os
import shutil
from pathlib import Path

from harness.plans import workload_topics
from harness.plans.app_workload import AppWorkload
from harness.plans.errors import PlanError
from harness.plans.plan import Plan
from harness.targets.base import TargetError
from harness.targets.docker import daemon
from harness.targets.local import rootless
from harness.workloads.app import environment
from harness.workloads.app.outputs.sql import engine_of


def check(plan: Plan) -> None:
    """Check the programs of a plan. Raises PlanError."""
    for program in workload_topics.programs(plan):
        where = f"plan {plan.name}: app"
        _check_program(program, where)
        if program.image is None:
            _check_command(program, Path(program.directory), where)
        else:
            _check_target(plan, where)
            _check_image(program, program.image, where)


def _check_program(program: AppWorkload, where: str) -> None:
    directory = Path(program.directory)
    if not directory.is_dir():
        raise PlanError(f"{where}.directory: there is no directory {directory}")
    try:
        environment.check(program.command, program.environment)
    except ValueError as error:
        raise PlanError(f"{where}: {error}") from error
    if program.sink.file is not None and not (folder := Path(program.sink.file).parent).is_dir():
        raise PlanError(f"{where}: output.file: there is no directory {folder}; make it")
    if program.sink.sql is not None:
        try:
            engine_of(program.sink.sql).dispose()
        except ValueError as error:
            raise PlanError(f"{where}: {error}") from error


def _check_target(plan: Plan, where: str) -> None:
    """Check that a container can reach the brokers, and can be broken."""
    if plan.target not in ("local", "docker"):
        raise PlanError(
            f"{where}.image: a program in a container needs target local or docker, or system "
            f"external, and not target {plan.target}: give the program as a command, without image"
        )
    if os.geteuid() != 0 or rootless.is_rootless():
        raise PlanError(
            f"{where}.image: only root can give a container its network and break it: run "
            "highwater as root (sudo), or give the program as a command, without image"
        )


def _check_image(program: AppWorkload, image: str, where: str) -> None:
    """Check that the daemon answers, has the image, and knows what to start in it."""
    from docker.errors import NotFound

    try:
        address = daemon.chosen()
        daemon.check(address)
        with daemon.client(address) as client:
            config = client.images.get(image).attrs["Config"] or {}
    except NotFound as error:
        raise PlanError(
            f"{where}.image: the Docker daemon at {address} has no image {image}: run `docker pull "
            f"{image}`, or build it (`docker build --tag {image} .`)"
        ) from error
    except TargetError as error:
        raise PlanError(f"{where}.image: {error}") from error
    if not (program.command or config.get("Cmd") or config.get("Entrypoint")):
        raise PlanError(
            f"{where}.command: image {image} does not say which program it starts; give the "
            "program and its arguments"
        )


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
