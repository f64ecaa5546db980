"""The command line of imports, exports and Elle: results, exit codes, one sentence per failure."""

import json
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
    """Run the command line in a directory of its own, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, said.out, said.err)

    return run


def test_there_and_back_again(tmp_path: Path, highwater: Highwater) -> None:
    """A history is imported, judged with its report, searched for circles, exported."""
    (tmp_path / "history.edn").write_text(SENT + LOST)
    made = highwater("import", "jepsen", "history.edn", "--out", "run")
    assert (made.returncode, made.stderr) == (0, "")
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


def test_kafkatest(tmp_path: Path, highwater: Highwater) -> None:
    """What a verifiable producer and a consumer printed is imported and judged."""
    sent = {"name": "producer_send_success", "value": "0", "topic": "t", "partition": 0}
    read = {"name": "record_data", "value": "0", "topic": "t", "partition": 0, "offset": 0}
    end = json.dumps({"name": "shutdown_complete"}) + "\n"
    (tmp_path / "p.log").write_text(json.dumps({**sent, "offset": 0}) + "\n" + end)
    (tmp_path / "c.log").write_text(json.dumps(read) + "\n" + end)
    made = highwater("import", "kafkatest", "p.log", "c.log", "--out", "run")
    assert (made.returncode, made.stderr) == (0, "")
    judged = highwater("check", "run", "--no-report", "--json")
    assert (judged.returncode, json.loads(judged.stdout)["verdict"]) == (0, "VALID")


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (SENT + ALL, ["import", "jepsen", "absent.edn", "--out", "run"], "absent.edn: cannot be"),
        (SENT + ALL[:-9], ["import", "jepsen", "h.edn", "--out", "run"], "h.edn: line 6, column 1"),
        (SENT + ALL, ["import", "jepsen", "h.edn", "--out", "."], ".: is there already"),
        (SENT + ALL, ["import", "jepsen", "h.edn", "--out", "r", "--acks", "2"], "'2' is no acks"),
        (SENT + ALL, ["import", "kafkatest", "h.edn", "--out", "run"], "is no JSON"),
        (SENT + ALL, ["export", "jepsen", ".", "out.edn"], ".: is no run"),
        (SENT + ALL, ["elle", "nowhere"], "nowhere: no such run directory"),
    ],
)  # fmt: skip
def test_bad_arguments(
    tmp_path: Path, highwater: Highwater, text: str, arguments: list[str], said: str
) -> None:
    """One sentence says what is wrong, and nothing is made."""
    (tmp_path / "h.edn").write_text(text)
    done = highwater(*arguments)
    assert (done.returncode, done.stdout) == (254, "")
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_import_is_judged_again_and_not_repeated(tmp_path: Path, highwater: Highwater) -> None:
    """Nothing here can run again what another tool ran; the way to judge it again is named."""
    (tmp_path / "history.edn").write_text(SENT + ALL)
    highwater("import", "jepsen", "history.edn", "--out", "run")
    judged = highwater("check", "run")
    assert (judged.returncode, "highwater check" in judged.stderr + judged.stdout) == (0, True)
    refused = highwater("run", "--replay", "run")
    assert refused.returncode == 254
    assert "is an import" in refused.stderr
