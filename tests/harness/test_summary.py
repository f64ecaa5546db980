"""A verdict on the terminal: everything that matters, within 80 characters a row."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import summary

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
def test_a_verdict_has_its_reasons_its_table_and_its_way_back(answer: str) -> None:
    """Answer, reasons, figures, causes, paths, and the command that repeats the run."""
    text = shown(
        {"verdict": answer, "reasons": ["because"], "topics": [TOPIC]}, Path("/runs/1/report.html")
    )
    assert text.split()[0] == answer
    for part in ("because", "acks-all", "123,456", "1.23", "nobody knows", "/runs/1/report.html"):
        assert part in text
    assert "highwater run --replay /runs/1" in text
    assert "…" not in text


def test_stale_polls_are_told_with_their_lags() -> None:
    """Of a topic that had any; otherwise there is nothing to say."""
    lags = {"stale_polls": 1_200, "stale_p50_ms": 2.0, "stale_p99_ms": 15.5, "stale_max_ms": 800.0}
    text = shown({"verdict": "VALID", "reasons": [], "topics": [TOPIC | lags]})
    said = "1,200 polls ended short of what acks=all had acknowledged before, 2.00 ms in the "
    assert f"acks-all: {said}median, 15.5 ms at p99, 800 ms at most" in text
    none = shown({"verdict": "VALID", "reasons": [], "topics": [TOPIC | {"stale_polls": 0}]})
    assert "ended short" not in none


def test_many_reasons_and_causes_are_cut_with_a_word() -> None:
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
