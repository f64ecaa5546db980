"""The supervisor as a process, with programs that behave badly, and without a cluster."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.history.history import read_arrow_stream
from harness.plans.app_workload import AppWorkload, Output
from harness.targets.linux import processes
from harness.targets.linux.kernel import wait_until
from harness.workloads.app.processes import FOLDER, RESULT, ProgramProcesses
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.text_payload import Ids
from harness.workloads.further_config import FurtherConfig

SOON_S = 90
SLEEPS = "print('ready', flush=True); import time; time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
PARENT = (
    "import subprocess; "
    "print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True); " + SLEEPS
)
WRITES = "import os; print(*{lines!r}, sep='\\n', file=open(os.environ['HIGHWATER_OUTPUT'], 'a')); "


@dataclass
class Supervised:
    """A supervisor that runs, and the folder of its program."""

    process: subprocess.Popen[bytes]
    run_dir: Path

    @property
    def programs(self) -> ProgramProcesses:
        """As faults see them."""
        return ProgramProcesses(self.run_dir / FOLDER)

    def log(self, instance: int = 1) -> str:
        """What an instance printed."""
        path = self.run_dir / FOLDER / f"instance-{instance}.log"
        return path.read_text() if path.exists() else ""

    def printed(self, text: str, times: int = 1) -> None:
        """Wait until the program has printed something."""
        assert wait_until(lambda: self.log().count(text) >= times, SOON_S), self.log()

    def end(self) -> dict[str, Any]:
        """End it without a wait for output; return what it says in the end."""
        self.process.send_signal(signal.SIGTERM)
        return self.result()

    def result(self) -> dict[str, Any]:
        """What it says in the end."""
        self.process.wait(SOON_S)
        result: dict[str, Any] = json.loads((self.run_dir / FOLDER / RESULT).read_text())
        return result

    def rows(self, f: str) -> list[dict[str, Any]]:
        """The rows of a kind in its history."""
        path = next((self.run_dir / "history").glob("*.arrows"))
        table: pa.Table = read_arrow_stream(path)[0]
        return [row for row in table.to_pylist() if row["f"] == f]


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts supervisors, and ends them whatever happens."""
    begun: list[Supervised] = []

    def starter(code: str, *, output: Output | None = None, **wanted: Any) -> Supervised:
        (tmp_path / "history").mkdir()
        program = AppWorkload(
            kind="app",
            command=wanted.pop("command", (sys.executable, "-u", "-c", code)),
            directory=str(tmp_path),
            input="orders",
            sink=output or Output(file="out.txt"),
            processing="exactly-once",
            stop_s=wanted.pop("stop_s", 5.0),
            **wanted,
        )
        config = FurtherConfig(
            run_id="run",
            base_ns=0,
            history_dir=str(tmp_path / "history"),
            first_client=2000,
            bootstrap="127.0.0.1:1",
            name="app@1",
            workload=program.model_dump(mode="json"),
            partitions={"orders": 1},
        )
        path = tmp_path / "config.json"
        path.write_text(json.dumps(asdict(config)))
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.workloads.app", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        begun.append(Supervised(process, tmp_path))
        return begun[-1]

    yield starter
    for each in begun:
        if each.process.poll() is None:
            each.programs.end()
            each.process.kill()
        each.process.wait()
        assert each.process.stdin is not None
        each.process.stdin.close()


def ids(*sequences: int) -> list[str]:
    """The ids of inputs with these sequences."""
    return [Ids("run").id_of(value_of(1001, sequence)) for sequence in sequences]


def test_output_is_recorded_with_its_places(start: Start) -> None:
    """A heading is ignored, a part of an id is torn, and garbage is unreadable."""
    lines = ["# bills", ids(1)[0], ids(2)[0], ids(3)[0][:-2], "what?"]
    program = WRITES.format(lines=lines) + SLEEPS
    run = start(program, output=Output(file="out.txt", ignore="^#"))
    run.printed("ready")
    assert run.end() == {"problem": None, "notes": []}
    found = [(r["offset"], r["value"], r["error"]) for r in run.rows("app-output")]
    assert found == [
        (1, value_of(1001, 1), None),
        (2, value_of(1001, 2), None),
        (3, None, "torn"),
        (4, None, "unreadable"),
    ]
    assert [r["type"] for r in run.rows("app-end")] == ["info"]  # it had no time
    assert [r["generation"] for r in run.rows("app-start")] == [1]
    assert [r["error"] for r in run.rows("app-exit")] == ["SIGTERM"]
    assert {r["client"] for r in run.rows("end")} == {2000, 2001}


def test_killed_instance_stays_down_until_the_fault_is_healed(start: Start) -> None:
    """Two faults hold it; the last one lets it go."""
    run = start(SLEEPS)
    run.printed("ready")
    run.programs.kill(1, "a")
    programs = run.programs
    programs.kill(1, "b")
    programs.kill(1, "c")
    time.sleep(0.5)  # it would have started again by then
    assert programs.pid(1) is None
    assert programs.states(1) == {}
    assert run.log().count("highwater: start") == 1
    programs.release(1, "b")
    assert programs.is_kept_down(1)
    programs.release(1, "c")
    programs.release(1, "c")
    assert programs.pid(1) is not None
    run.printed("ready", times=2)
    assert run.end()["problem"] is None
    assert [r["error"] for r in run.rows("app-exit")] == ["SIGKILL", "SIGTERM"]
    assert "ended, SIGKILL, by a fault" in run.log()


def test_paused_instance_stands_still_until_it_is_resumed(start: Start) -> None:
    """Two faults stop it; the last one lets it go."""
    run = start(SLEEPS)
    run.printed("ready")
    programs = run.programs
    programs.pause(1, "a")
    programs.pause(1, "b")
    assert set(programs.states(1).values()) == {"T"}
    programs.resume(1, "a")
    assert set(programs.states(1).values()) == {"T"}
    programs.resume(1, "b")
    assert "T" not in programs.states(1).values()
    assert run.end()["problem"] is None


def test_program_that_ends_at_once_is_named_with_its_last_lines(start: Start) -> None:
    """After a few attempts; the exit code says that the run is useless."""
    run = start("print('there is no config'); raise SystemExit(3)")
    problem = run.result()["problem"]
    assert "ended 3 times in a row within seconds of its start, without any output" in problem
    assert problem.endswith("there is no config")
    assert run.process.returncode == 1
    assert "exit code 3" in run.log()


def test_program_that_cannot_be_started_is_named(start: Start) -> None:
    """It was there when the plan was checked, and is not any more."""
    run = start("", command=("./gone",))
    assert (
        run.result()["problem"]
        == "the program cannot be started: ./gone: No such file or directory"
    )


def test_program_that_hangs_at_its_stop_is_killed_and_noted(start: Start) -> None:
    """It does not hear SIGTERM."""
    run = start(DEAF, stop_s=0.3)
    run.printed("ready")
    found = run.end()
    assert found["problem"] is None
    assert found["notes"][:1] == [
        "instance 1 of the program did not end within 0.3 s of SIGTERM and was killed"
    ]


@pytest.mark.slow
def test_program_that_floods_its_output_ends_the_run(start: Start) -> None:
    """More elements than a run can judge."""
    code = (
        "import os\n"
        "with open(os.environ['HIGHWATER_OUTPUT'], 'w') as out: out.write('x\\n' * 1_100_000)\n"
        + SLEEPS
    )
    run = start(code)
    assert run.result()["problem"] == "the program wrote more than 1,000,000 elements"
    assert run.rows("app-output") == []


def test_program_that_prints_without_end_does_not_fill_the_disk(start: Start) -> None:
    """Its log ends at a bound, and it goes on."""
    run = start("while True: print('x' * 100_000)")
    assert wait_until(lambda: "the log ends here" in run.log()[-200:], SOON_S)
    assert run.end()["problem"] is None
    assert len(run.log()) < 51_000_000


def test_child_that_left_its_group_ends_with_the_program(start: Start) -> None:
    """Nothing is left behind."""
    run = start(PARENT)
    run.printed("ready")
    child = int(run.log().split(" | ")[2].split()[0])
    assert processes.stat(child) is not None
    run.end()
    assert wait_until(lambda: processes.stat(child) is None, SOON_S)


def test_dead_harness_leaves_no_program(start: Start) -> None:
    """Its standard input closes, and the program gets no time, because no input can be read."""
    run = start(SLEEPS, lag_s=0.5)
    run.printed("ready")
    assert wait_until(lambda: run.programs.pid(1) is not None, SOON_S)
    pid = run.programs.pid(1)
    assert pid is not None
    assert run.process.stdin is not None
    run.process.stdin.close()
    assert run.result()["problem"] is None
    assert processes.is_gone(pid)
    [end] = run.rows("app-end")
    assert (end["type"], "not read to their end" in end["error"]) == ("info", True)


def test_http_output_takes_the_lines_of_requests(start: Start) -> None:
    """In the order of their arrival."""
    code = (
        "import os, urllib.request as u\n"
        f"for body in {ids(1, 2)!r}, {ids(3)!r}:\n"
        "  url = os.environ['HIGHWATER_OUTPUT']\n"
        "  print(u.urlopen(url, data='\\n'.join(body).encode()).status, flush=True)\n" + SLEEPS
    )
    run = start(code, output=Output(http=True))
    run.printed("204", times=2)
    run.end()
    found = [(r["offset"], r["value"]) for r in run.rows("app-output")]
    assert found == [(n, value_of(1001, n + 1)) for n in range(3)]


def test_rows_of_a_database_are_read(start: Start, tmp_path: Path) -> None:
    """The query says which, and in which order."""
    rows = [(each, -number) for number, each in enumerate(ids(1, 2, 3))]
    code = (
        "import sqlite3\n"
        "db = sqlite3.connect('bills.db')\n"
        "db.execute('CREATE TABLE bills (id TEXT, n INTEGER)')\n"
        f"db.executemany('INSERT INTO bills VALUES (?, ?)', {rows!r})\n"
        "db.commit()\n" + SLEEPS
    )
    url = f"sqlite:///{tmp_path / 'bills.db'}"
    run = start(code, output=Output(sql=url, query="SELECT id FROM bills ORDER BY n"))
    run.printed("ready")
    assert run.end() == {"problem": None, "notes": []}
    found = [(r["offset"], r["value"]) for r in run.rows("app-output")]
    assert found == [(n, value_of(1001, 3 - n)) for n in range(3)]


def test_program_that_writes_nothing_is_noted(start: Start) -> None:
    """It need not make its file."""
    run = start(SLEEPS)
    run.printed("ready")
    assert run.end()["notes"] == ["the program wrote nothing to file out.txt"]


def test_output_that_cannot_be_read_is_noted(start: Start, tmp_path: Path) -> None:
    """Somebody made a directory of the name."""
    (tmp_path / "out.txt").mkdir()
    run = start(SLEEPS)
    run.printed("ready")
    [note] = run.end()["notes"]
    assert note == (
        f"the program's output could not be read: {tmp_path / 'out.txt'}: Is a directory"
    )
