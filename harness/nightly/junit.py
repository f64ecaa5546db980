"""One night as JUnit XML, in the form of the schema of Jenkins's xUnit plugin (junit-10.xsd).

A violation is a failure. What the harness could not do, and what could not be decided, are errors;
their types tell them apart. Known violations and trials that were left out are skipped, with the
reason. A trial that passed although acknowledged writes were lost, as its contract permits, says so
in its properties and in its output.

The schema gives properties to suites and not to cases. So every trial is a suite: one case for the
contract, and one case for each expectation of the user.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.nightly.cells import Cell
from harness.nightly.markdown import EXPECTED
from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, Trial

_BY_OUTCOME: Final[Mapping[Outcome, type[Failure | Error]]] = {
    Outcome.VIOLATION: Failure,
    Outcome.ERROR: Error,
    Outcome.UNKNOWN: Error,
}
_BY_EXPECTATION: Final[Mapping[str, type[Failure | Error]]] = {"failed": Failure, "unknown": Error}


def junit(night: Night, cells: Sequence[Cell], results: Sequence[Result]) -> str:
    """Return the whole file. It contains the trials that are over."""
    by_name = {cell.name: cell for cell in cells}
    suites = [_suite(night, by_name.get(result.cell), result) for result in results]
    root = JUnitXml(night.suite.name)
    root.extend(suites)
    # update_statistics() would write `skipped` here, which the schema does not allow.
    root.tests = sum(suite.tests or 0 for suite in suites)
    root.failures = sum(suite.failures or 0 for suite in suites)
    root.errors = sum(suite.errors or 0 for suite in suites)
    root.time = round(sum(result.seconds for result in results), 1)
    document = ElementTree.fromstring(root.tostring())
    ElementTree.indent(document)
    return ElementTree.tostring(document, encoding="unicode", xml_declaration=True) + "\n"


def _suite(night: Night, cell: Cell | None, result: Result) -> TestSuite:
    name = f"{night.suite.name}.{result.cell}"
    suite = TestSuite(name)
    suite.timestamp = f"{datetime.fromtimestamp(night.began_s, tz=UTC):%Y-%m-%dT%H:%M:%S}"
    suite.hostname = night.machine.partition(",")[0]
    for key, value in _properties(night, cell, result).items():
        suite.add_property(key, _clean(value))
    suite.add_testcases([_contract_case(name, result), *_expectation_cases(name, result)])
    return suite


def _properties(night: Night, cell: Cell | None, result: Result) -> Mapping[str, str]:
    about = {} if cell is None else {
        "plan": cell.settings.plan,
        "target": cell.target,
        "acks": cell.acks,
        "faults": cell.faults or "none",
        "broker": cell.settings.broker_module or "the plan's",
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


def _contract_case(suite: str, result: Result) -> TestCase:
    case = TestCase(Trial(cell=result.cell, seed=result.seed).name, suite, result.seconds)
    kind = _contract_failure(result)
    if kind is not None:
        outcome = Outcome.UNKNOWN if result.outcome is Outcome.UNMET else result.outcome
        failure = kind(_clean(result.said), outcome.value)
        anomalies = "".join(f"{n} {name}\n" for name, n in result.anomalies.items())
        failure.text = _clean(f"{result.said}\n{anomalies}{result.replay or ''}")
        case.append(failure)
    elif result.known or result.outcome is Outcome.LEFT_OUT:
        why = "; ".join(result.known) or result.said
        case.append(Skipped(_clean(f"{Outcome.KNOWN if result.known else result.outcome}: {why}")))
    if result.headline:
        case.system_out = _clean(result.headline)
    return case


def _contract_failure(result: Result) -> type[Failure | Error] | None:
    """Return how the trial failed, without regard to the user's expectations; None: it did not."""
    if result.outcome is Outcome.UNMET:
        return Error if result.verdict == "UNKNOWN" else None
    if result.outcome is Outcome.UNKNOWN and result.verdict == "VALID":
        return None  # an expectation could not be decided; it has its own case
    return _BY_OUTCOME.get(result.outcome)


def _expectation_cases(suite: str, result: Result) -> Iterator[TestCase]:
    trial = Trial(cell=result.cell, seed=result.seed).name
    for row in result.expectations:
        case = TestCase(_clean(f"{trial}: {row['expectation']}"), suite, 0.0)
        kind = _BY_EXPECTATION.get(row["outcome"])
        if kind is not None:
            message = _clean(f"{EXPECTED[row['outcome']]}: {row['said']}")
            failure = kind(message, Outcome.UNMET.value)
            failure.text = _clean(f"{message}\n{result.replay or ''}")
            case.append(failure)
        yield case


def _clean(text: str) -> str:
    """Return the text without the characters that XML does not allow."""
    return "".join(
        c
        for c in text
        if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c < "\ufffe" or c > "\uffff"
    )
