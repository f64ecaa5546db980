"""What a tested program printed when it broke its claim, on the terminal and in the report."""

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.reports import summary
from harness.reports.data.node_logs import read_node_logs
from harness.reports.data.program_log import lines_between, program_lines

LOG = """\
     1.000 | highwater: start 1, process 7
    12.300 | read 5 orders
    12.400 | highwater: ended, SIGKILL, by a fault
no line of a log
    19.000 | password=secret
"""
VERDICT: dict[str, Any] = {
    "verdict": "INVALID",
    "reasons": ["because"],
    "topics": [],
    "anomalies": [
        {
            "kind": "lost-output",
            "judgement": "forbidden",
            "count": 2,
            "cause": "near fault 0",
            "examples": [{"invoke_ns": 12_000_000_000, "complete_ns": 12_001_000_000}],
        }
    ],
}


def stored(tmp_path: Path) -> Path:
    """A run with the log of a second instance."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "instance-2.log").write_text(LOG)
    (tmp_path / "program" / "instance-x.log").write_text(LOG)
    return tmp_path


def test_lines_have_their_instance_and_time(tmp_path: Path) -> None:
    """What is no line of a log is left out."""
    found = list(program_lines(stored(tmp_path)))
    assert found[1] == (2, 12.3, "read 5 orders")
    assert len(found) == 4


def test_lines_of_a_time_span_are_bounded(tmp_path: Path) -> None:
    """The first ones count, and secrets are hidden."""
    run = stored(tmp_path)
    assert lines_between(run, 12, 13, 1) == ["12.300 s, instance 2: read 5 orders"]
    assert "secret" not in lines_between(run, 18, 20, 9)[0]


def test_report_has_them_beside_the_lines_of_nodes(tmp_path: Path) -> None:
    """Under the negative number of the instance."""
    found = read_node_logs(stored(tmp_path), {}, [(12.3, 12.4)])
    assert [line[:2] for line in found.lines] == [(-2, 12.3), (-2, 12.4)]


def test_terminal_says_what_was_lost_why_and_what_the_program_printed(tmp_path: Path) -> None:
    """In the first lines."""
    screen = StringIO()
    summary.print_verdict(Console(file=screen, width=200), VERDICT, stored(tmp_path), None)
    lines = screen.getvalue().splitlines()
    assert "INVALID: CONTRACT BROKEN; THE PROGRAM BROKE ITS CLAIM" in lines[1]
    assert lines[2:5] == [
        "  2 inputs have no output: near fault 0.",
        "    12.300 s, instance 2: read 5 orders",
        "    12.400 s, instance 2: highwater: ended, SIGKILL, by a fault",
    ]
