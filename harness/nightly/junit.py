"""A night as JUnit XML, as the schema of Jenkins's xUnit plugin has it (junit-10.xsd).

A violation is a failure. What the harness could not do, and what nobody can say, are errors: red,
and told apart by their type. Known violations and what was left out are skipped, with the reason.
A run that passed although it lost acknowledged writes, as its contract permits, says so in its
properties and in what it printed.

There properties belong to suites and not to cases, so every trial is a suite of one case.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from harness.nightly.cells import Cell
from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, Trial

_FAILURES = {Outcome.VIOLATION: "failure", Outcome.ERROR: "error", Outcome.UNKNOWN: "error"}
_SKIPPED = (Outcome.KNOWN, Outcome.LEFT_OUT)


def junit(night: Night, cells: Sequence[Cell], results: Sequence[Result]) -> str:
    """The whole file; trials that are not over are not in it."""
    by_name = {cell.name: cell for cell in cells}
    root = Xml.Element("testsuites", name=night.suite.name)
    _count(root, results)
    for result in results:
        root.append(_suite(night, by_name.get(result.cell), result))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _count(element: Xml.Element, results: Sequence[Result]) -> None:
    element.set("tests", str(len(results)))
    element.set("failures", str(sum(_FAILURES.get(r.outcome) == "failure" for r in results)))
    element.set("errors", str(sum(_FAILURES.get(r.outcome) == "error" for r in results)))
    element.set("time", f"{sum(r.seconds for r in results):.1f}")


def _suite(night: Night, cell: Cell | None, result: Result) -> Xml.Element:
    suite = Xml.Element("testsuite", name=f"{night.suite.name}.{result.cell}")
    _count(suite, [result])
    suite.set("skipped", str(int(result.outcome in _SKIPPED)))
    suite.set("timestamp", f"{datetime.fromtimestamp(night.began_s, tz=UTC):%Y-%m-%dT%H:%M:%S}")
    suite.set("hostname", night.machine.partition(",")[0])
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(night, cell, result).items():
        Xml.SubElement(properties, "property", name=name, value=_clean(value))
    suite.append(_case(night, result))
    return suite


def _properties(night: Night, cell: Cell | None, result: Result) -> Mapping[str, str]:
    about = {} if cell is None else {
        "plan": cell.what.plan,
        "target": cell.target,
        "acks": cell.acks,
        "faults": cell.faults or "none",
        "broker": cell.what.broker_module or "the plan's",
    }  # fmt: skip
    return {
        "seed": str(result.seed),
        "verdict": result.verdict or "none",
        "headline": result.headline or "none",
        **{f"acknowledged_lost_acks_{acks}": str(n) for acks, n in result.lost.items()},
        **about,
        "night": night.name,
        "commit": night.commit or "unknown",
        "run": result.run or "none",
        "replay": result.replay or "none",
    }


def _case(night: Night, result: Result) -> Xml.Element:
    case = Xml.Element("testcase", classname=f"{night.suite.name}.{result.cell}")
    case.set("name", Trial(cell=result.cell, seed=result.seed).name)
    case.set("time", f"{result.seconds:.1f}")
    kind = _FAILURES.get(result.outcome)
    if kind is not None:
        found = Xml.SubElement(case, kind, message=_clean(result.said), type=result.outcome.value)
        anomalies = "".join(f"{n} {kind}\n" for kind, n in result.anomalies.items())
        found.text = _clean(f"{result.said}\n{anomalies}{result.replay or ''}")
    elif result.outcome in _SKIPPED:
        why = "; ".join(result.known) or result.said
        Xml.SubElement(case, "skipped", message=_clean(f"{result.outcome}: {why}"))
    if result.headline:
        Xml.SubElement(case, "system-out").text = _clean(result.headline)
    return case


def _clean(text: str) -> str:
    """Without the characters that XML cannot say."""
    return "".join(
        c
        for c in text
        if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c < "\ufffe" or c > "\uffff"
    )
