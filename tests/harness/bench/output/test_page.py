"""The terminal's tables and the HTML page of made-up results."""

import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from harness.bench.output import page, plots, table, words
from harness.bench.points import Measure, PointSelection
from harness.bench.results import Sample
from harness.bench.stats import Spread
from tests.support.bench_results import result
from tests.support.require import require


def printed(*arguments: object) -> str:
    console = Console(width=200, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    with console.file:
        table.print_result(console, *arguments)  # type: ignore[arg-type]
        return console.export_text()


class Checker(HTMLParser):
    """Every element that is opened is closed."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """SVG's elements that close themselves."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_terminal_shows_the_figures_of_2013_beside_the_measured_ones() -> None:
    """Medians with their spread, the talk's figures, the client alone, no ratio of one system."""
    text = printed(result())
    assert re.search(r"raw acks=1 +0\.550 \(0\.500\.\.0\.600\).* 1\.05", text)
    assert "up to 70" in text
    assert "5,000" in text
    assert " / " not in text.replace("MB/s", "")


def test_terminal_shows_ratios_to_the_first_system_and_to_the_baseline() -> None:
    """The second system is compared with the first, and both with a baseline."""
    text = printed(result(("ours", "theirs")), result(("ours",)))
    assert "theirs / ours" in text
    assert "2.00x (2.00x..2.00x)" in text
    assert "theirs / baseline" in text


def test_terminal_lists_failed_measurements_with_their_error() -> None:
    """A line names the point, the system, the round and the error."""
    made = result()
    lost = Sample(point=made.points[0], system="ours", round=1, values={}, error="it went away")
    text = printed(replace(made, samples=[*made.samples, lost]))
    assert "not measured: latency, raw acks=0 acks, ours, round 2: it went away" in text


def test_page_is_well_formed_and_loads_nothing() -> None:
    """It has a plot for each sweep, and every number in a table."""
    made = result(("ours", "theirs"))
    text = page.render(made, command="highwater bench")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert "http" not in text.replace("http-equiv", "")
    assert "src=" not in text
    assert text.count("<figure") == 1 + len(plots.plots(made))
    assert "2.00x" in text
    assert "nan" not in text.lower().replace("tenant", "")


def test_page_escapes_system_names_and_the_command() -> None:
    """A system may have any name."""
    text = page.render(result(("<b>&", "x")), command="--system '<script>'")
    assert "<b>&" not in text
    assert "<script>" not in text


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("rounds", [1, 3])
def test_each_measure_alone_makes_a_page(measure: Measure, rounds: int) -> None:
    """Also from a single round."""
    made = result(
        rounds=rounds, selection=PointSelection(measures=(measure,), clients=(), partitions=(100,))
    )
    assert "<figure" in page.render(made, command="highwater bench")


def test_page_without_values_shows_the_errors() -> None:
    """The page of a stopped benchmark says so."""
    made = result()
    lost = Sample(point=made.points[0], system="ours", round=0, values={}, error="it went away")
    text = page.render(replace(made, samples=[lost], stopped=True), command="highwater bench")
    assert "it went away" in text
    assert "stopped before" in text


def test_curve_labels_do_not_overlap() -> None:
    """Also where curves end close together."""
    for plot in plots.plots(result(("a", "b", "c"))):
        heights = sorted(curve.label_y for curve in plot.curves)
        gaps = [after - before for before, after in pairwise(heights)]
        assert min(gaps, default=plots.LABEL_GAP) >= plots.LABEL_GAP - 1e-9
        assert heights[-1] <= plots.BOTTOM + 1e-9


def test_five_systems_have_five_looks() -> None:
    """As many as the experiment on control planes compares."""
    by_system = [each for each in plots.plots(result(tuple("abcde"))) if each.curves]
    looks = {(curve.css, dot.mark) for curve in by_system[-1].curves for dot in curve.dots}
    assert len(looks) == 5


def test_dots_lie_inside_their_plot() -> None:
    """No curve leaves its plot."""
    for plot in plots.plots(result(("a", "b"))):
        for dot in (dot for curve in plot.curves for dot in curve.dots):
            assert plots.LEFT <= dot.x <= plots.RIGHT
            assert plots.TOP <= dot.y <= plots.BOTTOM


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1,234")],
)
def test_numbers_have_three_significant_digits_and_no_exponent(value: float, text: str) -> None:
    assert words.number(value) == text


def test_sizes_and_spreads_have_readable_labels() -> None:
    assert [words.bytes_label(n) for n in (500, 1024, 10240, 1 << 20)] == [
        "500 B", "1 KB", "10 KB", "1 MB",
    ]  # fmt: skip
    assert words.spread(Spread(median=1, least=1, most=1, count=1)) == "1.00"
    assert words.spread(None) == ""


@pytest.mark.slow
def test_page_opens_in_a_browser(tmp_path: Path) -> None:
    """A real browser renders it, plots included."""
    require("chromium")
    page.save(result(("ours", "theirs")), tmp_path / "bench.html", command="highwater bench")
    shot = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "bench.html").as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "<figure" in shot.stdout
