"""What of a program is checked before anything is started."""

from pathlib import Path
from typing import Any

import pytest

from harness.plans.app_workload import AppWorkload, Output
from harness.plans.errors import PlanError
from harness.plans.plan import Plan
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
