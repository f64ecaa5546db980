"""The report of a run as a reader sees it: what it says, what it escapes, what may be missing."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from checkers.contract.contract import CONTRACT
from checkers.history.history import FAULTS, table
from harness.reports import words
from harness.reports.page import render, write_report
from tests.support.reports.blocks import block
from tests.support.reports.synthetic_run import Shape, fault_rows, judged_run, killed_run, write_run

VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page's tags, attributes and visible text; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.extend((tag, name, value or "") for name, value in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.extend((tag, name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """The visible text, its white space collapsed."""
        return " ".join(" ".join(self.texts).split())


@pytest.mark.parametrize("outcome", ["VALID", "INVALID", "UNKNOWN"])
def test_says_the_verdict_first(tmp_path: Path, outcome: str) -> None:
    """The verdict is the first heading, and the title too."""
    text = render(judged_run(tmp_path / "run", outcome))
    assert Page(text).text.index(outcome) == 0
    first = re.search(r'<p class="answer">(\w+)</p>\s*<h1', text)
    assert first is not None
    assert first[1] == outcome


def test_says_in_a_sentence_why(tmp_path: Path) -> None:
    """Which acks mode lost how much, and what the contract says of it."""
    invalid = Page(render(judged_run(tmp_path / "invalid", "INVALID"))).text
    assert "acks=all lost 12 acknowledged writes, which nothing permits: " in invalid
    valid = Page(render(judged_run(tmp_path / "valid", "VALID"))).text
    assert "Contract kept; acknowledged writes lost" in valid
    assert "Acknowledged writes were lost: 32 acks=1, permitted by acks=1. acks=all kept" in valid
    assert "acks=1 acks=all with min.insync.replicas=2 105 acks=0 writes were lost too" in valid
    unknown = Page(render(judged_run(tmp_path / "unknown", "UNKNOWN"))).text
    assert "not complete enough for a verdict: final reads complete: no: 4 of 9" in unknown


@pytest.mark.parametrize(
    ("answer", "lossy", "standing"),
    [
        ("VALID", False, "clean"),
        ("VALID", True, "losses"),
        ("INVALID", True, "broken"),
        ("UNKNOWN", False, "undecided"),
    ],
)
def test_a_permitted_loss_looks_like_no_success_and_no_violation(
    tmp_path: Path, answer: str, lossy: bool, standing: str
) -> None:
    """Each standing has a colour and a shape of its own."""
    run = judged_run(tmp_path / "run", answer, Shape(sends=300))
    if not lossy:
        found = json.loads((run / "verdict.json").read_text())
        found["anomalies"] = [a for a in found["anomalies"] if a["judgement"] == "informational"]
        (run / "verdict.json").write_text(json.dumps(found))
    assert f'<section class="verdict {standing}"' in render(run)


def test_holds_everything_about_a_run(tmp_path: Path) -> None:
    """Tables, causes, faults, rules, assumptions, detectors, environment and the replay."""
    text = Page(render(judged_run(tmp_path / "run", "INVALID"))).text
    for part in (
        "105", "✕ forbidden 12", "! permitted 48", "The record names no cause",
        "node 3 replaced node 2 as leader at 23.402 s (epoch 5)",
        "leader:acks-1/0", "leader of acks-1/0 is node 2", "611 packets dropped",
        "final reads complete", "KIP-98", "watermark-regression",
        "librdkafka", "a16ec80b4c1df6aa10c7a3c15a26a0ee20e0ce9a", "2011", '"rate_per_s": 200',
        f"highwater run --replay {tmp_path.name}/run",
    ):  # fmt: skip
        assert part in text, part


def test_the_forbidden_comes_first(tmp_path: Path) -> None:
    """Also when the verdict lists it last; its cause is not confused with the permitted ones'."""
    run = judged_run(tmp_path / "run", "INVALID")
    verdict = json.loads((run / "verdict.json").read_text())
    verdict["anomalies"].reverse()
    (run / "verdict.json").write_text(json.dumps(verdict))
    text = render(run)
    assert text.index("kind-lost-write") < text.index("kind-unavailable")
    found = block(text, "anomalies")
    assert [group["judgement"] for group in found["groups"]] == [
        "forbidden", "permitted", "permitted", "informational",
    ]  # fmt: skip
    listed = [found["groups"][place]["judgement"] for place in found["instances"]["group"]]
    assert listed == ["forbidden"] * 10 + ["permitted"] * 20 + ["informational"]


def test_a_fault_tells_what_it_caused(tmp_path: Path) -> None:
    """And the loss names its fault: links both ways."""
    text = render(judged_run(tmp_path / "run", "VALID"))
    row = text[text.index('id="fault-1"') : text.index('id="fault-2"')]
    assert 'data-fault="1">32 lost-write<' in row
    assert 32 in [g["count"] for g in block(text, "anomalies")["groups"] if 1 in g["faults"]]


def test_the_figures_hold_every_operation(tmp_path: Path) -> None:
    """Sends as recorded, faults, leaders: what the page's script draws."""
    run = tmp_path / "run"
    history = write_run(run, Shape(sends=3_000))
    text = render(run)
    columns = block(text, "operations")["columns"]
    assert len(columns["kind"]) == history.num_rows
    assert sorted(columns["invoke"]) == sorted(n // 1000 for n in history["invoke_ns"].to_pylist())
    overview = block(text, "overview")
    assert [fault["took_effect"] for fault in overview["faults"]] == [True] * 5 + [False]
    assert len(overview["lanes"]) == 9


def test_needs_nothing_from_outside(tmp_path: Path) -> None:
    """No reference leaves the file, and its policy forbids it to load anything."""
    text = render(judged_run(tmp_path / "run", "INVALID"))
    page = Page(text)
    for tag, name, value in page.attributes:
        if name in ("src", "href", "srcset", "data", "action", "xlink:href", "poster"):
            assert value.startswith("#"), (tag, name, value)
    assert not {"link", "img", "iframe", "object", "base", "embed"} & {
        tag for tag, _, _ in page.attributes
    }
    said = re.sub(r'(?s)<script type="text/plain".*?</script>|// [^\n]*', "", text)
    assert re.findall(r"https?://[^\"'` ]+", said) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", said)
    assert "default-src 'none'" in text


def test_escapes_whatever_a_run_says(tmp_path: Path) -> None:
    """A hostile name cannot become markup, not in a table, a figure, a script or an attribute."""
    evil = "<script>alert(1)</script>\"'&"
    run = judged_run(
        tmp_path / "run<b>", "INVALID", Shape(sends=600, topics={evil: -1, "b</svg>": 1, "c": 0})
    )
    for name in ("plan", "run", "verdict"):
        found = json.loads((run / f"{name}.json").read_text())
        found |= {"name": evil, "commit": evil, "engine": evil}
        for row in [*found.get("anomalies", ()), *found.get("detectors", ())]:
            row |= {"kind": evil, "cause": evil, "rule": evil, "detail": evil}
        (run / f"{name}.json").write_text(json.dumps(found))
    text = render(run)
    assert "alert(1)" in Page(text).text
    assert "<script>alert" not in text
    assert "</svg>/" not in text
    assert "run<b>" not in text
    assert text.count("<script") == 5


def test_replay_command_quotes_the_run_directory(tmp_path: Path) -> None:
    """It can be pasted into a shell."""
    text = Page(render(judged_run(tmp_path / "a run", "VALID"))).text
    assert f"highwater run --replay '{tmp_path.name}/a run'" in text


def test_page_has_no_path_of_this_machine(tmp_path: Path) -> None:
    """Its commands work for a colleague, judged or not."""
    for run in (judged_run(tmp_path / "run", "INVALID"), killed_run(tmp_path / "killed")):
        text = render(run)
        assert str(tmp_path) not in text
        assert "--replay" in text


def test_contract_shows_the_rows_that_applied_and_folds_the_others(tmp_path: Path) -> None:
    """With the number of instances, the gravest first; a rule without a row is shown, too."""
    run = judged_run(tmp_path / "run", "INVALID")
    verdict = json.loads((run / "verdict.json").read_text())
    broken = {"kind": "one-leader", "judgement": "forbidden", "count": 1, "rule": "two leaders"}
    verdict["anomalies"].append(broken)
    (run / "verdict.json").write_text(json.dumps(verdict))
    text = render(run)
    shown, folded = text[text.index('id="contract"') : text.index('id="detectors"')].split(
        '<details class="others">'
    )
    assert shown.count('<td class="reason">') == 5
    assert shown.index("forbidden") < shown.index("permitted") < shown.index("informational")
    assert '<td class="n">105</td>' in shown
    assert "two leaders" in shown
    assert folded.count('<td class="reason">') == len(CONTRACT) - 4
    assert f"{len(CONTRACT) - 4} more rows that did not apply" in folded


def test_info_has_one_name_and_one_explanation(tmp_path: Path) -> None:
    """Not two words for one outcome."""
    text = render(judged_run(tmp_path / "run", "VALID"))
    assert "indeterminate" not in text.lower()
    assert text.count(words.INFO[len("info") :]) == 1
    assert words.INFO[len("info: ") :].partition(",")[0] in text


def test_a_killed_run_says_what_is_missing(tmp_path: Path) -> None:
    """Cut streams are drawn as far as they go, and every missing part has its sentence."""
    page = render(killed_run(tmp_path / "run"))
    text = Page(page).text
    assert text.index("UNKNOWN") == 0
    assert "has not been judged" in text
    assert f"highwater check {tmp_path.name}/run judges it" in text
    assert "One client's history was cut short" in text
    assert "faults.parquet) is missing" in text
    assert "cluster.parquet) is missing" in text
    assert "not judged" in text
    assert len(block(page, "operations")["columns"]["kind"]) == 3_500


def test_unsealed_tables_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """Faults of a killed run, from the stream that its harness could not seal."""
    run = killed_run(tmp_path / "run")
    rows = table(FAULTS, fault_rows())
    stream = run / "faults.arrows"
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, FAULTS) as writer:
        for batch in rows.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    stream.write_bytes(stream.read_bytes()[:-100])
    text = Page(render(run)).text
    assert "1 partition.isolate-leader node 2" in text
    assert "5 partition.one-way" not in text
    assert "faults.parquet) is missing" not in text


def test_what_the_run_noted_is_said(tmp_path: Path) -> None:
    """Its failure, what was left out, what did not settle; the failure not twice."""
    run = judged_run(tmp_path / "run", "UNKNOWN", Shape(sends=300))
    noted = {
        "error": "RunFailed: the clients ended with code -6", "failed_phase": "chaos",
        "notes": ["the clients ended with code -6", "pause was left out"],
        "unsettled": ["node 2 does not answer"],
    }  # fmt: skip
    found = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(found | noted))
    text = Page(render(run)).text
    assert "failed in the phase 'chaos': RunFailed: the clients ended with code -6" in text
    assert text.count("ended with code -6") == 1
    assert "pause was left out" in text
    assert "node 2 does not answer" in text


@pytest.mark.parametrize(
    "part", ["plan.json", "run.json", "verdict.json", "faults.parquet", "cluster.parquet",
             "history/clients-1.parquet"],
)  # fmt: skip
@pytest.mark.parametrize("damaged", [False, True])
def test_any_part_may_be_missing_or_damaged(tmp_path: Path, part: str, damaged: bool) -> None:
    """The rest is shown, and the part is named."""
    run = judged_run(tmp_path / "run", "VALID", Shape(sends=300))
    if damaged:
        (run / part).write_bytes(b"\xff{ not what it was")
    else:
        (run / part).unlink()
    text = Page(render(run)).text
    assert "What is missing" in text
    names = {"history/clients-1.parquet": "clients-1.parquet" if damaged else "No history"}
    assert names.get(part, part) in text


def test_an_empty_directory_has_a_report(tmp_path: Path) -> None:
    """Nothing at all is stored: it says so and fails nowhere."""
    text = Page(render(tmp_path)).text
    assert "Nothing was recorded that could be drawn" in text
    assert "No send is recorded" in text


def test_a_run_without_faults_says_so(tmp_path: Path) -> None:
    """No fault is something else than no record of faults."""
    run = judged_run(tmp_path / "run", "VALID", Shape(sends=300))
    pyarrow.parquet.write_table(table(FAULTS), run / "faults.parquet")
    text = Page(render(run)).text
    assert "No fault was injected" in text
    assert "The run has no record of its faults" not in text


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    """Writing it again leaves one file, the newer one."""
    run = judged_run(tmp_path / "run", "VALID", Shape(sends=300))
    path = write_report(run)
    assert path == run / "report.html"
    before = path.read_text()
    (run / "verdict.json").unlink()
    write_report(run)
    assert path.read_text() != before
    assert sorted(p.name for p in run.iterdir() if "report" in p.name) == ["report.html"]


def test_the_same_run_gives_the_same_report(tmp_path: Path) -> None:
    """Nothing of the moment of writing is in it."""
    run = judged_run(tmp_path / "run", "INVALID", Shape(sends=3_000))
    assert render(run) == render(run)


def test_promises_have_a_section_with_their_causes(tmp_path: Path) -> None:
    """Only in a run that has any."""
    run = judged_run(tmp_path / "run", "VALID")
    assert "Results per promise" not in Page(render(run)).text
    verdict = json.loads((run / "verdict.json").read_text())
    row = {"promise": "exactly-once", "groups": ["<g>"], "records": 1234, "skipped": 2, "twice": 0}
    cause = {"kind": "uncopied", "judgement": "forbidden", "cause": "because", "count": 2}
    verdict["promises"] = [row | {"torn": None, "causes": [cause]}, {"promise": "read_committed"}]
    (run / "verdict.json").write_text(json.dumps(verdict))
    text = Page(render(run)).text
    for part in ("Results per promise", "exactly-once <g>", "1,234", "2 uncopied forbidden"):
        assert part in text
