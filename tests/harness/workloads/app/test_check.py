"""What of a program is checked before anything is started."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.plans.app_workload import AppWorkload, Output
from harness.plans.errors import PlanError
from harness.plans.plan import Plan
from harness.targets.base import Unsupported
from harness.targets.docker import daemon
from harness.workloads.app.check import check


def plan(place: Path, **program: Any) -> Plan:
    """A plan that tests a program."""
    values = {
        "command": ("sleep", "1"),
        "directory": str(place),
        "sink": Output(file=str(place / "out.txt")),
        **program,
    }
    app = AppWorkload(kind="app", input="orders", processing="exactly-once", **values)
    return Plan(seed=1, name="bills", more_workloads=(app,))


def test_program_on_the_path_or_in_its_directory_is_found(tmp_path: Path) -> None:
    """Without a program, there is nothing to check."""
    (tmp_path / "app.sh").write_text("#!/bin/sh\n")
    (tmp_path / "app.sh").chmod(0o755)
    check(plan(tmp_path))
    check(plan(tmp_path, command=("./app.sh",)))
    check(Plan(seed=1))


def test_what_cannot_be_started_is_named_with_what_to_do(tmp_path: Path) -> None:
    """Each is one sentence."""
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    url = "env:HIGHWATER_NO_SUCH_VARIABLE"
    mistakes = {
        "there is no program nowhere-to-be-found on the PATH": {
            "command": ("nowhere-to-be-found",)
        },
        f"there is no program {tmp_path}/gone": {"command": ("./gone",)},
        "may not be executed; run `chmod": {"command": ("./plain.sh",)},
        "there is no directory /gone": {"directory": "/gone"},
        "there is no variable HIGHWATER_X": {"command": ("sleep", "${HIGHWATER_X}")},
        "output.file: there is no directory": {"sink": Output(file=f"{tmp_path}/a/out.txt")},
        "HIGHWATER_NO_SUCH_VARIABLE is not set": {"sink": Output(sql=url, query="SELECT 1")},
        "Could not parse SQLAlchemy URL": {"sink": Output(sql="nonsense", query="SELECT 1")},
    }
    for message, wrong in mistakes.items():
        with pytest.raises(PlanError, match="plan bills: app") as caught:
            check(plan(tmp_path, **wrong))
        assert message in str(caught.value)


def container(place: Path, **more: Any) -> Plan:
    """A plan that tests a program in a container."""
    return plan(place, command=(), image="bills:1").model_copy(update=more)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"target": "ssh"}, "target ssh"),
        ({"target": "vagrant"}, "target vagrant"),
    ],
)
def test_container_needs_a_network_that_highwater_makes(
    more: dict[str, Any], place: str, tmp_path: Path
) -> None:
    """Elsewhere it could not be cut off, or could not reach the brokers."""
    with pytest.raises(PlanError, match=rf"app.image: .* and not {place}: give the program as a"):
        check(container(tmp_path, **more))


def test_container_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says so before Docker is asked."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(PlanError, match=r"app.image: only root .* run highwater as root \(sudo\)"):
        check(container(tmp_path))


def test_container_needs_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it becomes a mistake of the plan."""

    def refuse(address: str) -> None:
        raise Unsupported(f"no Docker daemon answers at {address}: start it")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("DOCKER_HOST", "unix:///here")
    monkeypatch.setattr(daemon, "check", refuse)
    with pytest.raises(PlanError, match=r"bills: app.image: no Docker daemon .*/here: start it"):
        check(container(tmp_path))


class FakeDaemon:
    """Has one image."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.attrs = {"Config": config}

    @property
    def images(self) -> "FakeDaemon":
        return self

    def get(self, name: str) -> "FakeDaemon":
        return self


def test_image_or_command_says_what_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image without a program needs a command."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(daemon, "check", lambda address: None)
    monkeypatch.setattr(daemon, "client", lambda address: nullcontext(FakeDaemon({})))
    with pytest.raises(PlanError, match=r"app.command: image bills:1 does not say .* give the"):
        check(container(tmp_path))
    check(plan(tmp_path, command=("run",), image="bills:1"))
    known = FakeDaemon({"Entrypoint": ["/bills"]})
    monkeypatch.setattr(daemon, "client", lambda address: nullcontext(known))
    check(container(tmp_path))
