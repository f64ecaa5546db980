"""The report of a run: one HTML file, made from what the run stored.

Guarantees: the file opens offline (styles, script and figures are inside, and its content security
policy forbids to load anything else); every text of a run is escaped; the page says what is
missing; it has no path of this machine in its commands. The page judges nothing: it shows the
stored verdict.
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
from harness.recording.store import write_atomic
from harness.reports import html, replay, words
from harness.reports.data.available_faults import available_faults
from harness.reports.data.loading import StoredRun, directory_of, load
from harness.reports.data.losses import FAULT_NAMED, acks_strength, losses_of
from harness.reports.data.page_data import PageData, TopicCounts, read_page_data

REPORT_FILE = "report.html"
SCRIPTS = (
    "codec.js", "view.js", "counting.js", "figure.js", "reading.js", "listing.js", "incident.js",
    "main.js",
)  # fmt: skip
"""Parts of one script, in this order."""
OUT_OF_RANGE = (
    "{rows} rows of the record have numbers that are too large to draw; they are drawn at 2**53. "
    "The tables, verdict.json and the reasons have the true numbers."
)
_CONTRACT_ROW = (
    "configuration", "anomaly", "judgement", "reason", "source", "permitted_by", "prevented_by",
)  # fmt: skip


def write_report(run_dir: Path) -> Path:
    """Write `run_dir`/report.html and return its path. Raises OSError when it cannot be written.

    Missing or damaged parts of the run raise nothing: the report says what is missing.
    """
    path = run_dir / REPORT_FILE
    write_atomic(path, render(run_dir))
    return path


def render(run_dir: Path) -> str:
    """Return the report as text."""
    run_dir = run_dir.absolute()
    stored = load(run_dir)
    try:
        data = read_page_data(stored)
    except (duckdb.Error, ArithmeticError, ValueError) as error:
        # Show the verdict even if the tables are damaged.
        stored = stored.without_tables(str(error))
        data = read_page_data(stored)
    if data.rows_out_of_range:
        stored = replace(
            stored, missing=(*stored.missing, OUT_OF_RANGE.format(rows=data.rows_out_of_range))
        )
    return _environment().get_template("report.html.j2").render(_context(stored, data))


@cache
def _environment() -> Environment:
    made = html.environment("harness.reports")
    made.filters.update(
        num=words.number,
        ms=words.milliseconds,
        sec=words.seconds,
        acks=words.acks_label,
        acks_class=words.acks_class,
        cause_parts=_cause_parts,
    )
    return made


def _context(stored: StoredRun, data: PageData) -> dict[str, Any]:
    verdict = stored.verdict
    templates = resources.files("harness.reports").joinpath("templates")
    return {
        # The package's own files: the only texts that are not escaped.
        "css": Markup(templates.joinpath("report.css").read_text()),
        "js": Markup("\n".join(templates.joinpath(name).read_text() for name in SCRIPTS)),
        "name": str(stored.plan.get("name") or stored.run_dir.parent.name),
        "started": _started(stored.run.get("started_wall_ns")),
        "duration_s": data.span_s,
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
        "topics": _topics(verdict, data.topics),
        "promises": _promises(verdict),
        "promise_counts": words.PROMISE_COUNTS,
        "drawn": data.span_s > 0,
        "blocks": data.blocks,
        "operations": data.operations,
        "timeline": data.timeline,
        "progress": data.progress,
        "wall_clocks": data.wall_clocks,
        "main_cause": words.main_cause(verdict),
        "anomalies_by_fault": _anomalies_by_fault(data.anomalies.groups),
        "faults_known": bool(stored.tables["faults"]),
        "kinds": _kinds(data.anomalies.groups),
        "assumptions": [
            {"name": "", "holds": False, "detail": "", "decisive": True} | row
            for row in _rows(verdict.get("assumptions"))
        ],
        "contract": _contract(verdict),
        "losses": losses_of(verdict),
        "detectors": [
            {"name": "", "status": "", "count": 0, "seconds": None, "detail": ""} | row
            for row in _rows(verdict.get("detectors"))
        ],
        "engine": str(verdict.get("engine") or ""),
        "checked_at": str(verdict.get("checked_at") or ""),
        "environment": _environment_rows(stored),
        "offers": available_faults(stored.run),
        "plan": json.dumps(stored.plan, indent=2, ensure_ascii=False) if stored.plan else "",
        "replay": replay.replay_of(stored),
        "info_meaning": words.INFO,
    }


def _kinds(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the kinds of anomalies with their counts by judgement; the gravest group comes
    first."""
    found: dict[str, dict[str, int]] = {}
    for group in groups:
        totals = found.setdefault(group["kind"], {})
        totals[group["judgement"]] = totals.get(group["judgement"], 0) + group["count"]
    return [
        {"name": kind, "meaning": words.meaning(kind), "totals": list(totals.items())}
        for kind, totals in found.items()
    ]


def _contract(verdict: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the contract in two parts: the rows that judged an anomaly of this run, the gravest
    first, with the number of instances; and the other rows. A rule that is not in the stored
    contract, such as an invariant of a simulation, is a row of the first part."""
    applied: dict[str, dict[str, Any]] = {}
    for anomaly in _rows(verdict.get("anomalies")):
        rule = str(anomaly.get("rule"))
        made = {"anomaly": anomaly.get("kind"), "judgement": anomaly.get("judgement")}
        row = applied.setdefault(
            rule, dict.fromkeys(_CONTRACT_ROW, "") | made | {"reason": rule, "count": 0}
        )
        row["count"] += int(anomaly.get("count") or 0)
    others = []
    for raw in _rows(verdict.get("contract")):
        row = dict.fromkeys(_CONTRACT_ROW, "") | raw
        rule = "{configuration}: {anomaly} {judgement}: {reason}".format(**row)
        if rule in applied:
            applied[rule] |= row
        else:
            others.append(row)
    ordered = sorted(
        applied.values(),
        key=lambda row: (
            words.judgement_order(str(row["judgement"])),
            words.kind_order(str(row["anomaly"])),
        ),
    )
    return {"applied": ordered, "others": others}


def _anomalies_by_fault(groups: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    """Return, by fault, how many anomalies of each kind name the fault in their cause."""
    found: dict[int, dict[str, int]] = {}
    for group in groups:
        for fault in group["faults"]:
            kinds = found.setdefault(fault, {})
            kinds[group["kind"]] = kinds.get(group["kind"], 0) + group["count"]
    return found


def _cause_parts(cause: str) -> list[dict[str, Any]]:
    """Split a cause at the faults that it names, so that they can be links."""
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
    """Return the objects of a JSON list, without anything else."""
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _topics(verdict: Mapping[str, Any], counts: Sequence[TopicCounts]) -> list[dict[str, Any]]:
    """Return one row per topic, the strongest acks mode first: as judged, or counted from the
    history of a run that was not judged."""
    if judged := _rows(verdict.get("topics")):
        judged.sort(key=lambda topic: -acks_strength(topic.get("acks")))
        return [_judged_topic(topic) for topic in judged]
    return [
        {
            "topic": each.topic, "acks": each.acks, "idempotence": False, "sent": each.sent,
            "acked": each.acked if each.acks else None, "failed": each.failed, "info": each.info,
            "lost": None, "lost_permitted": None, "lost_forbidden": None, "duplicated": None,
            "reordered": None, "p50_ms": each.p50_ms, "p99_ms": each.p99_ms, "stale": "",
        }
        for each in sorted(counts, key=lambda each: -acks_strength(each.acks))
    ]  # fmt: skip


def _promises(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of `checkers.promises`, with their causes as lines."""
    names = ("promise", "records", *words.PROMISE_COUNTS)
    found = []
    for row in _rows(verdict.get("promises")):
        causes = [dict.fromkeys(("kind", "judgement", "cause", "count")) | each
                  for each in _rows(row.get("causes"))]  # fmt: skip
        made = {name: row.get(name) for name in names}
        groups = ", ".join(_texts(row.get("groups")))
        lines = [words.of_promise(made, cause) for cause in causes]
        found.append(made | {"groups": groups, "lines": lines})
    return found


def _judged_topic(topic: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "topic", "acks", "idempotence", "sent", "acked", "failed", "lost", "lost_permitted",
        "lost_forbidden", "duplicated", "reordered", "p50_ms", "p99_ms",
    )  # fmt: skip
    unacknowledged = {"acked": None} if topic.get("acks") == 0 else {}
    return (
        {name: topic.get(name) for name in names}
        | unacknowledged
        | {
            "info": topic.get("indeterminate"),
            "stale": words.staleness(topic),
        }
    )


def _environment_rows(stored: StoredRun) -> list[tuple[str, str]]:
    """Return what the run ran on, as (name, value)."""
    plan, run = stored.plan, stored.run
    rows = [
        ("run", run.get("run_id")),
        ("directory in the store", directory_of(stored.run_dir)),
        ("commit", run.get("commit")),
        ("seed", plan.get("seed")),
        ("target", plan.get("target")),
        ("system", plan.get("system")),
        ("broker", plan.get("broker_module")),
        ("nodes", plan.get("nodes")),
        ("control plane", words.control_plane(plan)),
        ("clients", run.get("client")),
        ("phases finished", ", ".join(_texts(run.get("finished")))),
    ]
    versions = run.get("versions")
    if isinstance(versions, dict):
        rows.extend(sorted(versions.items()))
    return [(name, str(value)) for name, value in rows if value not in (None, "")]
