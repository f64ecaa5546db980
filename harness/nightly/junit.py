"""A night as JUnit XML, as the schema of Jenkins's xUnit plugin has it (junit-10.xsd).

A violation is a failure. What the harness could not do, and what nobody can say, are errors: red,
and told apart by their type. Known violations and what was left out are skipped, with the reason.
A run that passed although it lost acknowledged writes, as its contract permits, says so in its
properties and in what it printed.

There properties belong to suites and not to cases, so every trial is a suite: a case for the
contract, and one for each expectation of the user's, which fails by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from harness.nightly.cells import Cell
from harness.nightly.markdown import EXPECTED
from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, Trial

_FAILURES = {Outcome.VIOLATION: "failure", Outcome.ERROR: "error", Outcome.UNKNOWN: "error"}
_EXPECTED = {"failed": "failure", "unknown": "error"}


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
    kinds = [kind for result in results for kind in _kinds(result)]
    element.set("tests", str(len(kinds)))
    element.set("failures", str(kinds.count("failure")))
    element.set("errors", str(kinds.count("error")))
    element.set("time", f"{sum(r.seconds for r in results):.1f}")


def _kinds(result: Result) -> list[str | None]:
    """How each case of a trial failed; None of those that did not: first the contract's."""
    return [_contract(result), *(_EXPECTED.get(row["outcome"]) for row in result.expectations)]


def _contract(result: Result) -> str | None:
    """How the trial failed, whatever its user expects beside the contract."""
    if result.outcome is Outcome.UNMET:
        return "error" if result.verdict == "UNKNOWN" else None
    if result.outcome is Outcome.UNKNOWN and result.verdict == "VALID":
        return None  # an expectation was not decided, and has a case of its own
    return _FAILURES.get(result.outcome)


def _skipped(result: Result) -> bool:
    return bool(result.known) or result.outcome is Outcome.LEFT_OUT


def _suite(night: Night, cell: Cell | None, result: Result) -> Xml.Element:
    suite = Xml.Element("testsuite", name=f"{night.suite.name}.{result.cell}")
    _count(suite, [result])
    suite.set("skipped", str(int(_skipped(result))))
    suite.set("timestamp", f"{datetime.fromtimestamp(night.began_s, tz=UTC):%Y-%m-%dT%H:%M:%S}")
    suite.set("hostname", night.machine.partition(",")[0])
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(night, cell, result).items():
        Xml.SubElement(properties, "property", name=name, value=_clean(value))
    suite.append(_case(night, result))
    suite.extend(_expected(night, result))
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
    kind = _contract(result)
    if kind is not None:
        kept = Outcome.UNKNOWN if result.outcome is Outcome.UNMET else result.outcome
        found = Xml.SubElement(case, kind, message=_clean(result.said), type=kept.value)
        anomalies = "".join(f"{n} {kind}\n" for kind, n in result.anomalies.items())
        found.text = _clean(f"{result.said}\n{anomalies}{result.replay or ''}")
    elif _skipped(result):
        why = "; ".join(result.known) or result.said
        Xml.SubElement(
            case,
            "skipped",
            message=_clean(f"{Outcome.KNOWN if result.known else result.outcome}: {why}"),
        )
    if result.headline:
        Xml.SubElement(case, "system-out").text = _clean(result.headline)
    return case


def _expected(night: Night, result: Result) -> Iterator[Xml.Element]:
    """A case for each expectation."""
    for row in result.expectations:
        case = Xml.Element("testcase", classname=f"{night.suite.name}.{result.cell}")
        trial = Trial(cell=result.cell, seed=result.seed).name
        case.set("name", _clean(f"{trial}: {row['expectation']}"))
        case.set("time", "0")
        if kind := _EXPECTED.get(row["outcome"]):
            said = _clean(f"{EXPECTED[row['outcome']]}: {row['said']}")
            found = Xml.SubElement(case, kind, message=said, type=Outcome.UNMET.value)
            found.text = _clean(f"{said}\n{result.replay or ''}")
        yield case


def _clean(text: str) -> str:
    """Without the characters that XML cannot say."""
    return "".join(
        c
        for c in text
        if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c < "\ufffe" or c > "\uffff"
    )
