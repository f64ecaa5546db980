"""`highwater import`, `export` and `elle`: results, exit codes and messages."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli.main import main

SENT = """\
{:type :invoke, :f :send, :value [[:send 1 10]], :time 1, :process 0, :index 0}
{:type :ok, :f :send, :value [[:send 1 [0 10]]], :time 2, :process 0, :index 1}
{:type :invoke, :f :send, :value [[:send 1 11]], :time 3, :process 0, :index 2}
{:type :ok, :f :send, :value [[:send 1 [1 11]]], :time 4, :process 0, :index 3}
{:type :invoke, :f :poll, :value [[:poll]], :time 5, :process 1, :index 4}
"""
ALL = "{:type :ok, :f :poll, :value [[:poll {1 [[0 10] [1 11]]}]], :time 6, :process 1, :index 5}"
LOST = "{:type :ok, :f :poll, :value [[:poll {1 [[1 11]]}]], :time 6, :process 1, :index 5}"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Highwater = Callable[..., Done]


@pytest.fixture
def highwater(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Highwater:
    """Return a function that runs the command line in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, printed.out, printed.err)

    return run


def test_history_is_imported_judged_checked_by_elle_and_exported(
    tmp_path: Path, highwater: Highwater
) -> None:
    """The export can be imported again."""
    (tmp_path / "history.edn").write_text(SENT + LOST)
    made = highwater("import", "jepsen", "history.edn", "--out", "run")
    assert (made.returncode, made.stdout) == (0, f"{tmp_path / 'run'}\n")
    judged = highwater("check", "run", "--json")
    assert judged.returncode == 1, judged.stderr
    assert "1 lost-write in jepsen-0" in json.loads(judged.stdout)["reasons"][0]
    assert (tmp_path / "run" / "report.html").is_file()
    found = highwater("elle", "run")
    assert (found.returncode, found.stdout.splitlines()[0]) == (0, "VALID")
    assert json.loads((tmp_path / "run" / "elle.json").read_text())["outcome"] == "VALID"
    exported = highwater("export", "jepsen", "run", "back.json")
    assert exported.stdout == "key 1: partition 0 of jepsen\n"
    again = highwater("import", "jepsen", "back.json", "--out", "again")
    assert again.returncode == 0, again.stderr
    elle = highwater("export", "elle", "run", "elle.json")
    assert elle.returncode == 0, elle.stderr
    assert len(json.loads((tmp_path / "elle.json").read_text())) == 6
    asked = highwater("elle", "run", "--elle-jar", "elle.json")
    assert (asked.returncode, asked.stdout.splitlines()[0]) == (2, "UNKNOWN")


def test_output_of_verifiable_clients_is_imported_and_judged(
    tmp_path: Path, highwater: Highwater
) -> None:
    sent = {"name": "producer_send_success", "value": "0", "topic": "t", "partition": 0}
    read = {"name": "record_data", "value": "0", "topic": "t", "partition": 0, "offset": 0}
    end = json.dumps({"name": "shutdown_complete"}) + "\n"
    (tmp_path / "p.log").write_text(json.dumps({**sent, "offset": 0}) + "\n" + end)
    (tmp_path / "c.log").write_text(json.dumps(read) + "\n" + end)
    made = highwater("import", "kafkatest", "p.log", "c.log", "--out", "run")
    assert (made.returncode, made.stdout) == (0, f"{tmp_path / 'run'}\n")
    judged = highwater("check", "run", "--no-report", "--json")
    assert (judged.returncode, json.loads(judged.stdout)["verdict"]) == (0, "VALID")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (SENT + ALL, ["import", "jepsen", "absent.edn", "--out", "run"], "absent.edn: cannot be"),
        (SENT + ALL[:-9], ["import", "jepsen", "h.edn", "--out", "run"], "h.edn: line 6, column 1"),
        (SENT + ALL, ["import", "jepsen", "h.edn", "--out", "."], ".: exists already"),
        (SENT + ALL, ["import", "jepsen", "h.edn", "--out", "r", "--acks", "2"], "'2' is no acks"),
        (SENT + ALL, ["import", "kafkatest", "h.edn", "--out", "run"], "is no JSON"),
        (SENT + ALL, ["export", "jepsen", ".", "out.edn"], ".: is no run"),
        (SENT + ALL, ["elle", "nowhere"], "nowhere: no such run directory"),
    ],
)  # fmt: skip
def test_bad_arguments_end_with_one_message_and_no_run_directory(
    tmp_path: Path, highwater: Highwater, text: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "h.edn").write_text(text)
    done = highwater(*arguments)
    assert (done.returncode, done.stdout) == (254, "")
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_import_prints_the_commands_that_come_next(tmp_path: Path, highwater: Highwater) -> None:
    """They work as they are printed, also for a directory with a blank in its name."""
    (tmp_path / "history.edn").write_text(SENT + ALL)
    made = highwater("import", "jepsen", "history.edn", "--out", "my run")
    commands = [line.partition("highwater ")[2] for line in made.stderr.splitlines()]
    assert [shlex.split(each) for each in commands] == [
        ["check", str(tmp_path / "my run")],
        ["report", str(tmp_path / "my run")],
    ]
    for each in commands:
        assert highwater(*shlex.split(each)).returncode == 0


def test_import_can_be_judged_again_but_not_run_again(tmp_path: Path, highwater: Highwater) -> None:
    """Another tool made the run; `highwater run` cannot repeat it."""
    (tmp_path / "history.edn").write_text(SENT + ALL)
    highwater("import", "jepsen", "history.edn", "--out", "run")
    judged = highwater("check", "run")
    assert (judged.returncode, "highwater check" in judged.stderr + judged.stdout) == (0, True)
    refused = highwater("run", "--replay", "run")
    assert refused.returncode == 254
    assert "is an import" in refused.stderr
