"""A verdict on the terminal: everything important, in at most 80 characters per line."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.reports import summary, terminal
from harness.reports.words import INFO

TOPIC = {
    "topic": "acks-all", "acks": -1, "sent": 123_456, "acked": 123_000, "failed": 0,
    "indeterminate": 456, "lost": 12_345, "lost_forbidden": 12, "duplicated": 0, "reordered": None,
    "p50_ms": 1.234, "p99_ms": 1234.5, "loss_causes": [{"cause": "nobody knows", "count": 12}],
}  # fmt: skip


def shown(verdict: dict[str, Any], report: Path | None = None) -> str:
    """What is printed for a verdict, 80 characters wide."""
    screen = io.StringIO()
    summary.print_verdict(Console(file=screen, width=80), verdict, Path("/runs/1"), report)
    return screen.getvalue()


@pytest.mark.parametrize("answer", ["VALID", "INVALID", "UNKNOWN"])
def test_verdict_has_reasons_table_and_replay_command(answer: str) -> None:
    """Answer, reasons, figures, causes, paths, and the command that repeats the run."""
    text = shown(
        {"verdict": answer, "reasons": ["because"], "topics": [TOPIC]}, Path("/runs/1/report.html")
    )
    assert text.split()[1] == f"{answer}:"
    for part in ("because", "acks-all", "123,456", "1.23", "nobody knows", "/runs/1/report.html"):
        assert part in text
    assert "highwater run --replay /runs/1" in text
    assert "…" not in text


def test_sends_without_acknowledgement_count_as_sent_only() -> None:
    """A send with acks=0 ends when it is handed to the network."""
    text = shown({"verdict": "VALID", "reasons": [], "topics": [{**TOPIC, "acks": 0}]})
    assert "123,456 " in text
    assert "123,000" not in text


LOST = {
    "kind": "lost-write", "judgement": "permitted", "acks": -1, "count": 934,
    "permitted_by": "unclean.leader.election.enable=true",
    "prevented_by": ["unclean.leader.election.enable=false"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "anomalies", "first", "colour"),
    [
        ("VALID", [], "✓ VALID: CONTRACT KEPT; NO ACKNOWLEDGED WRITE LOST", "32"),
        ("VALID", [LOST], "! VALID: CONTRACT KEPT; ACKNOWLEDGED WRITES LOST", "33"),
        ("INVALID", [LOST], "✕ INVALID: CONTRACT BROKEN; ACKNOWLEDGED WRITES LOST", "31"),
        ("UNKNOWN", [], "? UNKNOWN: CONTRACT NOT DECIDED", "35"),
    ],
)
def test_success_losses_violations_and_doubts_have_a_sign_and_a_colour_each(
    answer: str, anomalies: list[dict[str, Any]], first: str, colour: str
) -> None:
    """And without colours the sign and the words remain."""
    verdict = {"verdict": answer, "reasons": [], "topics": [], "anomalies": anomalies}
    for no_color in (False, True):
        screen = io.StringIO()
        console = Console(
            file=screen, width=80, force_terminal=True, color_system="256", no_color=no_color
        )
        summary.print_verdict(console, verdict, Path("/runs/1"), None)
        assert first in screen.getvalue()
        assert (f"\x1b[1;{colour}m{first}" in screen.getvalue()) is not no_color


def test_each_loss_has_what_permits_and_what_prevents_it() -> None:
    """Whole lines, however narrow the terminal."""
    verdict = {"verdict": "VALID", "reasons": [], "topics": [TOPIC], "anomalies": [LOST]}
    text = shown(verdict)
    assert "  934 acks=all, permitted by unclean.leader.election.enable=true\n" in text
    assert "    prevented by unclean.leader.election.enable=false\n" in text


def test_expectations_are_named_apart_from_the_contract() -> None:
    """Failed, undecided and met ones."""
    rows = [
        {"outcome": "failed", "said": "publish_p99_ms <= 50, measured 83"},
        {"outcome": "unknown", "said": "stale_ms <= 5, not measured: no poll"},
        {"outcome": "passed", "said": "lost = 0, measured 0"},
    ]
    text = shown({"verdict": "VALID", "reasons": [], "topics": [], "expectations": rows})
    assert "✕ VALID: CONTRACT KEPT; NO ACKNOWLEDGED WRITE LOST; EXPECTATION FAILED\n" in text
    assert "  EXPECTATION FAILED: publish_p99_ms <= 50, measured 83\n" in text
    assert "  EXPECTATION NOT DECIDED: stale_ms <= 5, not measured: no poll\n" in text
    assert "  as expected: lost = 0, measured 0\n" in text


def test_signs_are_left_out_where_the_terminal_cannot_show_them() -> None:
    """A terminal that knows only ASCII."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=screen, width=80)
    summary.print_verdict(
        console, {"verdict": "VALID", "reasons": [], "topics": []}, Path("/runs/1"), None
    )
    screen.seek(0)
    assert screen.read().lstrip().startswith("VALID: CONTRACT KEPT")


def test_stale_polls_are_printed_with_their_lags() -> None:
    """Only for topics with stale polls."""
    lags = {"stale_polls": 1_200, "stale_p50_ms": 2.0, "stale_p99_ms": 15.5, "stale_max_ms": 800.0}
    text = shown({"verdict": "VALID", "reasons": [], "topics": [TOPIC | lags]})
    stale = "1,200 stale polls, behind by 2.00 ms (p50), 15.5 ms (p99), 800 ms (maximum)"
    assert f"acks-all: {stale}" in text
    none = shown({"verdict": "VALID", "reasons": [], "topics": [TOPIC | {"stale_polls": 0}]})
    assert "stale" not in none


def test_info_is_explained_when_there_is_any() -> None:
    """With the words of the page."""
    verdict = {"verdict": "VALID", "reasons": [], "topics": [TOPIC]}
    assert f"  {INFO}\n" in shown(verdict)
    verdict["topics"] = [TOPIC | {"indeterminate": 0}]
    assert INFO not in shown(verdict)


def test_sentences_are_wrapped_on_a_terminal_and_whole_in_a_file() -> None:
    """With a hanging indent; a control character is an escape in both."""
    cause = "Node 3 replaced node 2 as leader\x07, " * 5 + "and nobody knows."
    topics = [TOPIC | {"loss_causes": [{"cause": cause, "count": 12}]}]
    verdict = {"verdict": "VALID", "reasons": [], "topics": topics}
    [line] = [line for line in shown(verdict).splitlines() if line.endswith("nobody knows.")]
    assert line.startswith("  acks-all: 12 lost: Node 3 replaced")
    screen = io.StringIO()
    console = terminal.Terminal(file=screen, width=60, force_terminal=True, color_system=None)
    summary.print_verdict(console, verdict, Path("/runs/1"), None)
    lines = screen.getvalue().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("  acks-all: 12"))
    wrapped = lines[first : next(n for n, line in enumerate(lines) if "knows." in line) + 1]
    assert len(wrapped) > 3
    assert all(len(line) <= 60 and line.startswith("    ") for line in wrapped[1:])
    assert " ".join(map(str.strip, wrapped)).endswith(cause.replace("\x07", "\\x07"))


def test_causes_of_the_worst_losses_come_first() -> None:
    """Forbidden ones, then those of the strongest acks mode."""
    topics = [
        TOPIC | {"topic": name, "acks": acks, "lost_forbidden": forbidden}
        for name, acks, forbidden in (("weak", 0, 0), ("strong", -1, 0), ("broken", 1, 5))
    ]
    text = shown({"verdict": "INVALID", "reasons": [], "topics": topics})
    lines = [line.split(":")[0].strip() for line in text.splitlines() if "nobody knows" in line]
    assert lines == ["broken", "strong", "weak"]


def test_many_reasons_and_causes_are_shortened_with_a_count() -> None:
    """The terminal shows the first ones and says where the rest is."""
    causes = [{"cause": f"cause {number}", "count": 1} for number in range(20)]
    reasons = [f"reason {number}" for number in range(30)]
    text = shown(
        {"verdict": "INVALID", "reasons": reasons, "topics": [TOPIC | {"loss_causes": causes}]}
    )
    assert f"and {30 - summary.MAX_REASONS} more reasons" in text
    assert f"and {20 - summary.MAX_CAUSES} more causes" in text
    assert "cause 19" not in text


@pytest.mark.parametrize("noted", ['{"client": "aiokafka 0.14.0"}', "{}", "[]", "cut", None])
def test_the_client_is_named_where_the_run_noted_it(tmp_path: Path, noted: str | None) -> None:
    """Older runs did not, and a run that is damaged may not."""
    if noted is not None:
        (tmp_path / "run.json").write_text(noted)
    screen = io.StringIO()
    summary.print_verdict(
        Console(file=screen, width=80),
        {"verdict": "VALID", "reasons": [], "topics": [TOPIC]},
        tmp_path,
        None,
    )
    assert ("clients  aiokafka 0.14.0" in screen.getvalue()) == ("aiokafka" in (noted or ""))


PROMISE = {
    "promise": "at-least-once", "groups": ["g"], "records": 12_345, "skipped": 0, "twice": 7,
    "torn": None, "aborted": None,
    "causes": [{"kind": "delivered-again", "judgement": "permitted", "cause": "why", "count": 7}],
}  # fmt: skip


def test_promises_have_a_table_and_their_causes() -> None:
    """Only in runs with groups, or with readers of a known isolation level."""
    verdict = {"verdict": "VALID", "reasons": [], "topics": [TOPIC]}
    text = shown(verdict | {"promises": [PROMISE]})
    for part in ("promise", "12,345", "at-least-once: 7 delivered-again permitted: why"):
        assert part in text
    assert "promise" not in shown(verdict)
