"""What became of a trial, of a cell, and of a night. Pure.

    passed     VALID; a canary that was found counts as passed, too
    losses     VALID, and acknowledged writes were lost, as the contract permits
    known      INVALID, and every forbidden anomaly is one that the suite knows of
    violation  INVALID otherwise; a canary that was not found: then the suite is blind
    expectation failed   no violation, and something that the user expects surely did not come out
    unknown    UNKNOWN: nobody can say
    error      the harness failed, or was given something that it refuses
    left out   there was no time for it

A violation outweighs everything, an error whatever was only not decided.
"""

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from checkers.contract import headline
from checkers.contract.headline import Headline, Standing
from harness.judging.judge import forbidden_of
from harness.nightly.cells import Cell
from harness.nightly.suite import Known

INVALID: Final = "INVALID"
TIMED_OUT: Final = -9


class Outcome(enum.StrEnum):
    """See the module; in the order of their gravity."""

    VIOLATION = "violation"
    UNMET = "expectation failed"
    ERROR = "error"
    UNKNOWN = "unknown"
    KNOWN = "known"
    LOSSES = "passed with losses"
    PASSED = "passed"
    LEFT_OUT = "left out"


EXIT_CODES: Final[Mapping[Outcome, int]] = {
    Outcome.VIOLATION: 1,
    Outcome.UNMET: 1,
    Outcome.ERROR: 255,
    Outcome.UNKNOWN: 2,
    Outcome.KNOWN: 0,
    Outcome.LOSSES: 0,
    Outcome.PASSED: 0,
    Outcome.LEFT_OUT: 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a cell."""

    cell: str
    seed: int

    @property
    def name(self) -> str:
        """Of its directory, and of it in every list."""
        return f"{self.cell}-{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a trial."""

    cell: str
    seed: int
    outcome: Outcome
    said: str
    """One sentence."""
    headline: str = ""
    """Of the verdict: whether the contract was kept, and what was lost."""
    seconds: float = 0.0
    canary: bool = False
    verdict: str | None = None
    exit_code: int | None = None
    anomalies: Mapping[str, int] = field(default_factory=dict)
    """The forbidden ones, and how many of each."""
    known: tuple[str, ...] = ()
    """Reasons, with links."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Acknowledged writes that were lost, permitted or not, by acks mode as people write it."""
    expectations: tuple[Mapping[str, Any], ...] = ()
    """As verdict.json has them."""
    acked: int = 0
    p99_ms: float | None = None
    unavailable_ms: float | None = None
    """The longest time that a partition gave no acknowledgement."""
    run: str | None = None
    """The run's directory, below the night's."""
    replay: str | None = None
    """The command that repeats it."""

    def to_json(self) -> dict[str, Any]:
        """JSON-able, for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What `to_json` made."""
        lists = {name: tuple(raw.get(name) or ()) for name in ("known", "expectations")}
        return cls(**{**raw, "outcome": Outcome(raw["outcome"]), **lists})


def judged(
    cell: Cell,
    trial: Trial,
    *,
    exit_code: int,
    verdict: Mapping[str, Any] | None,
    complaint: str,
    known: Sequence[Known],
) -> Result:
    """The result of a process that ended so. `complaint` is the end of what it wrote on stderr."""
    base = Result(
        cell=cell.name,
        seed=trial.seed,
        outcome=Outcome.ERROR,
        said=complaint or f"highwater ended with exit code {exit_code} and said nothing",
        canary=cell.canary,
        exit_code=exit_code,
    )
    if verdict is None or exit_code not in (0, 1, 2):
        return base
    forbidden, found = forbidden_of(verdict), headline.of(verdict)
    outcome, said = _outcome(cell, verdict, forbidden)
    reasons = _known(cell, forbidden, known) if outcome is Outcome.VIOLATION else None
    if reasons:
        outcome = Outcome.KNOWN
    if found.unmet and not cell.canary and outcome is not Outcome.VIOLATION:
        outcome, said = Outcome.UNMET, f"EXPECTATION FAILED: {'; '.join(found.unmet)}"
    return Result(
        **{
            **{name: getattr(base, name) for name in ("cell", "seed", "canary", "exit_code")},
            "outcome": outcome,
            "said": said,
            "headline": found.line,
            "lost": found.lost_by_acks,
            "verdict": str(verdict["verdict"]),
            "anomalies": forbidden,
            "known": reasons or (),
            "expectations": () if cell.canary else tuple(verdict.get("expectations") or ()),
            "acked": sum(topic.get("acked") or 0 for topic in verdict["topics"]),
            "p99_ms": _most(topic.get("p99_ms") for topic in verdict["topics"]),
            "unavailable_ms": _unavailable_ms(verdict),
        }
    )


def _outcome(
    cell: Cell, verdict: Mapping[str, Any], forbidden: Mapping[str, int]
) -> tuple[Outcome, str]:
    first = str(next(iter(verdict["reasons"]), ""))
    answer = verdict["verdict"]
    if cell.canary:
        if answer != INVALID:
            return Outcome.VIOLATION, f"the broken broker was not found: {answer}: {first}"
        if cell.expect is not None and cell.expect not in forbidden:
            instead = ", ".join(forbidden)
            return Outcome.VIOLATION, f"{cell.expect} was to be found, and there is {instead}"
        return Outcome.PASSED, f"found, as it must be: {first}"
    match answer:
        case "VALID":
            return _of_valid(headline.of(verdict), first)
        case "INVALID":
            return Outcome.VIOLATION, first
        case _:
            return Outcome.UNKNOWN, first


def _of_valid(found: Headline, first: str) -> tuple[Outcome, str]:
    match found.standing:
        case Standing.LOSSES:
            return Outcome.LOSSES, found.line
        case Standing.UNDECIDED:
            return Outcome.UNKNOWN, f"EXPECTATION NOT DECIDED: {'; '.join(found.undecided)}"
        case _:
            return Outcome.PASSED, first


def _known(
    cell: Cell, forbidden: Mapping[str, int], known: Sequence[Known]
) -> tuple[str, ...] | None:
    """Why each forbidden anomaly is known; None where one is not, and for canaries."""
    if cell.canary or not forbidden:
        return None
    found = []
    for anomaly in forbidden:
        entry = next((k for k in known if _is_about(k, cell, anomaly)), None)
        if entry is None:
            return None
        found.append(entry.reason + (f" ({entry.link})" if entry.link else ""))
    return tuple(dict.fromkeys(found))


def _is_about(entry: Known, cell: Cell, anomaly: str) -> bool:
    return entry.anomaly == anomaly and fnmatchcase(cell.name, entry.cell)


def _unavailable_ms(verdict: Mapping[str, Any]) -> float | None:
    return _most(
        (example["complete_ns"] - example["invoke_ns"]) / 1e6
        for anomaly in verdict["anomalies"]
        if anomaly["kind"] == "unavailable"
        for example in anomaly["examples"]
        if example.get("complete_ns") is not None and example.get("invoke_ns") is not None
    )


def _most(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return round(max(found), 3) if found else None


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """What a cell or a night comes to; left out where there is nothing."""
    order = list(Outcome)
    return min(outcomes, key=order.index, default=Outcome.LEFT_OUT)


def exit_code(results: Iterable[Result]) -> int:
    """Of the whole night; nothing tried at all is nothing decided."""
    outcome = worst(result.outcome for result in results)
    return 2 if outcome is Outcome.LEFT_OUT else EXIT_CODES[outcome]


def by_cell(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each cell, in the order in which they came."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.cell, []).append(result)
    return found


class Change(enum.StrEnum):
    """A cell against the night before."""

    NEW = "new"
    """It fails, and did not."""
    STILL = "still failing"
    FIXED = "fixed"
    SAME = ""


FAILED: Final = frozenset({Outcome.VIOLATION, Outcome.UNMET, Outcome.ERROR, Outcome.UNKNOWN})


def changes(now: Iterable[Result], before: Iterable[Result]) -> dict[str, Change]:
    """For each cell of tonight; a cell that was not tried says nothing of the other night."""
    old = {cell: worst(r.outcome for r in found) for cell, found in by_cell(before).items()}
    found: dict[str, Change] = {}
    for cell, results in by_cell(now).items():
        fails = worst(r.outcome for r in results) in FAILED
        failed = old.get(cell) in FAILED
        if fails:
            found[cell] = Change.STILL if failed else Change.NEW
        else:
            found[cell] = Change.FIXED if failed else Change.SAME
    return found


def flaky(nights: Sequence[Sequence[Result]]) -> frozenset[str]:
    """Cells that failed in some of these nights and passed in others, and back: not once only."""
    turns: dict[str, list[bool]] = {}
    for night in nights:
        for cell, results in by_cell(night).items():
            outcome = worst(r.outcome for r in results)
            if outcome is not Outcome.LEFT_OUT:
                turns.setdefault(cell, []).append(outcome in FAILED)
    return frozenset(
        cell
        for cell, failed in turns.items()
        if sum(a != b for a, b in itertools.pairwise(failed)) >= 2
    )
