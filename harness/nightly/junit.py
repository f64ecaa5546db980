"""A night as JUnit XML, in the dialect that Jenkins's schema (junit-10.xsd) describes.

A violation is a failure. What the harness could not do, and what nobody can say, are errors: red,
and told apart by their type. Known violations and what was left out are skipped, with the reason.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, Trial

_FAILURES = {Outcome.VIOLATION: "failure", Outcome.ERROR: "error", Outcome.UNKNOWN: "error"}
_SKIPPED = (Outcome.KNOWN, Outcome.LEFT_OUT)


def junit(night: Night, results: Sequence[Result]) -> str:
    """The whole file; trials that are not over are not in it."""
    root = Xml.Element("testsuites", name=night.suite.name)
    suite = Xml.SubElement(root, "testsuite", name=night.suite.name)
    suite.set("timestamp", f"{datetime.fromtimestamp(night.began_s, tz=UTC):%Y-%m-%dT%H:%M:%S}")
    suite.set("hostname", night.machine.partition(",")[0])
    counts = {
        "tests": len(results),
        "failures": sum(_FAILURES.get(r.outcome) == "failure" for r in results),
        "errors": sum(_FAILURES.get(r.outcome) == "error" for r in results),
        "skipped": sum(r.outcome in _SKIPPED for r in results),
    }
    for name, count in counts.items():
        suite.set(name, str(count))
        root.set(name, str(count)) if name != "skipped" else None
    suite.set("time", f"{sum(r.seconds for r in results):.1f}")
    _properties(suite, {"night": night.name, "commit": night.commit or "unknown"})
    for result in results:
        suite.append(_case(night, result))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(night: Night, result: Result) -> Xml.Element:
    case = Xml.Element("testcase", classname=f"{night.suite.name}.{result.cell}")
    case.set("name", Trial(cell=result.cell, seed=result.seed).name)
    case.set("time", f"{result.seconds:.1f}")
    _properties(
        case,
        {
            "seed": str(result.seed),
            "verdict": result.verdict or "none",
            "faults": result.cell,
            "run": result.run or "none",
            "replay": result.replay or "none",
        },
    )
    kind = _FAILURES.get(result.outcome)
    if kind is not None:
        found = Xml.SubElement(case, kind, message=_clean(result.said), type=result.outcome.value)
        anomalies = "".join(f"{n} {kind}\n" for kind, n in result.anomalies.items())
        found.text = _clean(f"{result.said}\n{anomalies}{result.replay or ''}")
    elif result.outcome in _SKIPPED:
        why = "; ".join(result.known) or result.said
        Xml.SubElement(case, "skipped", message=_clean(f"{result.outcome}: {why}"))
    return case


def _properties(parent: Xml.Element, values: dict[str, str]) -> None:
    properties = Xml.SubElement(parent, "properties")
    for name, value in values.items():
        Xml.SubElement(properties, "property", name=name, value=_clean(value))


def _clean(text: str) -> str:
    """Without the characters that XML cannot say."""
    return "".join(c for c in text if c in "\t\n" or " " <= c <= "\ud7ff" or c >= "\ue000")
