"""The report of a run: one HTML file that needs nothing else, made from what is stored.

Guarantees: opens offline (styles, script and figures are in the file, and its content security
policy forbids it to load anything); every text that came from a run is escaped; whatever is missing
is said. It judges nothing: the verdict is read, not made.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment
from markupsafe import Markup

from checkers.contract import headline
from harness.plans import repeat
from harness.recording.store import write_atomic
from harness.reports import html, words
from harness.reports.data.available_faults import offers
from harness.reports.data.facts import Facts, TopicCounts, gather
from harness.reports.data.incidents import FAULT_NAMED
from harness.reports.data.loading import Stored, load

REPORT_FILE = "report.html"
SCRIPTS = (
    "codec.js", "view.js", "counting.js", "figure.js", "reading.js", "listing.js", "incident.js",
    "main.js",
)  # fmt: skip
"""In this order one script, whose parts see each other."""
BEYOND = (
    "{rows} rows of the record have numbers too great to be drawn; they are drawn at 2**53. The "
    "tables, verdict.json and the reasons have them as they are."
)
_CONTRACT_ROW = (
    "configuration", "anomaly", "judgement", "reason", "source", "permitted_by", "prevented_by",
)  # fmt: skip
MAX_CAUSES = 6
"""Causes of loss named under a topic; the rest is counted, and listed with the anomalies."""


def write_report(run_dir: Path) -> Path:
    """Write `run_dir`/report.html and return its path. Raises OSError when it cannot be written.

    Missing or damaged parts of the run do not raise: the report says what it lacks.
    """
    path = run_dir / REPORT_FILE
    write_atomic(path, render(run_dir))
    return path


def render(run_dir: Path) -> str:
    """The report as text."""
    run_dir = run_dir.absolute()
    stored = load(run_dir)
    try:
        facts = gather(stored)
    except (duckdb.Error, ArithmeticError, ValueError) as error:
        # Whatever is wrong with them, the verdict is shown.
        stored = stored.without_tables(str(error))
        facts = gather(stored)
    if facts.beyond:
        stored = replace(stored, missing=(*stored.missing, BEYOND.format(rows=facts.beyond)))
    return _environment().get_template("report.html.j2").render(_context(stored, facts))


@cache
def _environment() -> Environment:
    made = html.environment("harness.reports")
    made.filters.update(
        num=words.number,
        ms=words.milliseconds,
        sec=words.seconds,
        acks=words.acks_label,
        acks_class=words.acks_class,
    )
    return made


def _context(stored: Stored, facts: Facts) -> dict[str, Any]:
    verdict = stored.verdict
    templates = resources.files("harness.reports").joinpath("templates")
    return {
        # Our own files, not a run's: the only texts that are not escaped.
        "css": Markup(templates.joinpath("report.css").read_text()),
        "js": Markup("\n".join(templates.joinpath(name).read_text() for name in SCRIPTS)),
        "name": str(stored.plan.get("name") or stored.run_dir.parent.name),
        "started": _started(stored.run.get("started_wall_ns")),
        "duration_s": facts.span_s,
        "outcome": words.outcome(verdict),
        "headline": headline.of(verdict),
        "why": words.why(verdict),
        "judged": bool(verdict),
        "expectations": [
            dict.fromkeys(("expectation", "outcome", "said"), "") | row
            for row in _rows(verdict.get("expectations"))
        ],
        "reasons": _texts(verdict.get("reasons")),
        "missing": stored.missing,
        "notes": stored.notes,
        "topics": _topics(verdict, facts.topics),
        "drawn": facts.span_s > 0,
        "blocks": facts.blocks,
        "operations": facts.operations,
        "timeline": facts.timeline,
        "progress": facts.progress,
        "wall_clocks": facts.wall_clocks,
        "blamed": _blamed(words.blamed(verdict)),
        "blames": _blames(facts.anomalies.groups),
        "faults_known": bool(stored.tables["faults"]),
        "kinds": _kinds(facts.anomalies.groups),
        "assumptions": [
            {"name": "", "holds": False, "detail": "", "decisive": True} | row
            for row in _rows(verdict.get("assumptions"))
        ],
        "contract": [
            dict.fromkeys(_CONTRACT_ROW, "") | row for row in _rows(verdict.get("contract"))
        ],
        "detectors": [
            {"name": "", "status": "", "count": 0, "seconds": None, "detail": ""} | row
            for row in _rows(verdict.get("detectors"))
        ],
        "engine": str(verdict.get("engine") or ""),
        "checked_at": str(verdict.get("checked_at") or ""),
        "environment": _environment_rows(stored),
        "offers": offers(stored.run),
        "plan": json.dumps(stored.plan, indent=2, ensure_ascii=False) if stored.plan else "",
        "replay": repeat.command(stored.run_dir),
    }


def _kinds(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many of each kind were judged how; groups come the gravest first."""
    found: dict[str, dict[str, int]] = {}
    for group in groups:
        totals = found.setdefault(group["kind"], {})
        totals[group["judgement"]] = totals.get(group["judgement"], 0) + group["count"]
    return [
        {"name": kind, "meaning": words.MEANINGS.get(kind, ""), "totals": list(totals.items())}
        for kind, totals in found.items()
    ]


def _blames(groups: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    """By fault: how many of each kind of anomaly name it in their cause."""
    found: dict[int, dict[str, int]] = {}
    for group in groups:
        for fault in group["faults"]:
            kinds = found.setdefault(fault, {})
            kinds[group["kind"]] = kinds.get(group["kind"], 0) + group["count"]
    return found


def _blamed(cause: str) -> list[dict[str, Any]]:
    """A cause, cut where it names faults, so that their names can be links."""
    before, *named = FAULT_NAMED.split(cause)
    pieces = [{"fault": None, "text": before}] if before else []
    for fault, after in zip(named[::2], named[1::2], strict=True):
        pieces.append({"fault": int(fault), "text": f" ({after}"})
    return pieces


def _started(wall_ns: Any) -> str:
    if not isinstance(wall_ns, int):
        return ""
    return f"{datetime.fromtimestamp(wall_ns / 1e9, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def _texts(found: Any) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []


def _rows(found: Any) -> list[dict[str, Any]]:
    """The objects of a JSON list; anything else in it is no row."""
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _topics(verdict: Mapping[str, Any], counts: Sequence[TopicCounts]) -> list[dict[str, Any]]:
    """One row per topic: as judged, or else what the history alone says of it."""
    if judged := _rows(verdict.get("topics")):
        return [_judged_topic(topic) for topic in judged]
    return [
        {
            "topic": each.topic, "acks": each.acks, "idempotence": False, "sent": each.sent,
            "acked": each.acked, "failed": each.failed, "indeterminate": each.indeterminate,
            "lost": None, "lost_permitted": None, "lost_forbidden": None, "duplicated": None,
            "reordered": None, "p50_ms": each.p50_ms, "p99_ms": each.p99_ms, "causes": [],
            "more_causes": 0, "stale": "",
        }
        for each in counts
    ]  # fmt: skip


def _judged_topic(topic: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "topic", "acks", "idempotence", "sent", "acked", "failed", "indeterminate", "lost",
        "lost_permitted", "lost_forbidden", "duplicated", "reordered", "p50_ms", "p99_ms",
    )  # fmt: skip
    causes = sorted(_rows(topic.get("loss_causes")), key=lambda row: -int(row.get("count") or 0))
    return {name: topic.get(name) for name in names} | {
        "causes": [
            {"count": row.get("count"), "cause": str(row.get("cause") or "no cause in the record")}
            for row in causes[:MAX_CAUSES]
        ],
        "more_causes": max(0, len(causes) - MAX_CAUSES),
        "stale": words.staleness(topic),
    }


def _environment_rows(stored: Stored) -> list[tuple[str, str]]:
    """What the run ran on, as (name, value)."""
    plan, run = stored.plan, stored.run
    rows = [
        ("run", run.get("run_id")),
        ("directory", stored.run_dir),
        ("commit", run.get("commit")),
        ("seed", plan.get("seed")),
        ("target", plan.get("target")),
        ("system", plan.get("system")),
        ("broker", plan.get("broker_module")),
        ("nodes", plan.get("nodes")),
        ("clients", run.get("client")),
        ("phases finished", ", ".join(_texts(run.get("finished")))),
    ]
    versions = run.get("versions")
    if isinstance(versions, dict):
        rows.extend(sorted(versions.items()))
    return [(name, str(value)) for name, value in rows if value not in (None, "")]
