"""How client processes end when one of them supervises a tested program."""

import subprocess
from pathlib import Path

import pytest

from harness.plans.app_workload import AppWorkload, Output
from harness.workloads import launch
from harness.workloads.app.processes import RESULT
from harness.workloads.further_config import FurtherConfig
from harness.workloads.launch import ClientProcess, Workload

NOTES = '{"problem": null, "notes": ["instance 1 was killed"]}'


def process(place: Path, name: str, program: Path | None = None) -> ClientProcess:
    """A process that notes the end of its standard input, or SIGTERM, in a common file."""
    app = AppWorkload(
        kind="app", command=("x",), directory="/", input="orders", sink=Output(file="o"),
        processing="exactly-once",
    )  # fmt: skip
    config = FurtherConfig(
        run_id="run", base_ns=0, history_dir=str(place), first_client=1000, bootstrap="b:1",
        name=name, workload=app.model_dump(mode="json"), partitions={"orders": 1},
    )  # fmt: skip
    script = f"trap 'echo {name} hurries >> ended' TERM; echo; cat; echo {name} >> ended"
    made = subprocess.Popen(
        ["sh", "-c", script], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert made.stdout is not None
    made.stdout.readline()  # now it hears SIGTERM
    return ClientProcess(
        config=config, process=made, log_path=place / "log", stat={}, program=program
    )


@pytest.mark.parametrize("hurry", [False, True])
def test_producers_end_before_the_program(
    hurry: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on for a while first, unless there is no time; what the supervisor notes is told."""
    waited: list[float] = []
    monkeypatch.setattr("harness.workloads.launch.time.sleep", waited.append)
    (tmp_path / RESULT).write_text(NOTES)
    clients = [process(tmp_path, "program", tmp_path), process(tmp_path, "producers")]
    assert Workload(clients).stop(hurry=hurry) == ["instance 1 was killed"]
    ended = (tmp_path / "ended").read_text().split("\n")[:-1]
    assert [each for each in ended if "hurries" not in each] == ["producers", "program"]
    assert ("program hurries" in ended) == hurry
    assert "producers hurries" not in ended
    assert (launch.PASS_S in waited) != hurry
