"""What a run's own files say of it, short enough for a list of thousands. Pure.

Nothing here fails for what is missing or damaged: a run whose harness was killed has no verdict,
and a file may hold anything. What a text says is not believed to be short, either.
"""

import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from checkers.contract import headline
from checkers.contract.headline import Standing
from harness.plans.plan import acks_name
from harness.reports import words
from harness.serve.store_files import Place

Json = Mapping[str, Any]

LONGEST_SAID: Final = 600
NIGHTLY: Final = "nightly"
BROKEN: Final = "InvariantBroken: "
"""How a simulated run ends that broke an invariant: a violation, though there is no verdict."""


class State(enum.StrEnum):
    """What is known of a run; the gravest first."""

    INVALID = "INVALID"
    UNMET = "expectation failed"
    FAILED = "failed"
    UNKNOWN = "UNKNOWN"
    CUT = "cut"
    UNJUDGED = "not judged"
    RUNNING = "running"
    LOSSES = "VALID, losses"
    VALID = "VALID"


MEANINGS: Final[Mapping[State, str]] = {
    State.INVALID: "something forbidden was found",
    State.UNMET: "the contract is not broken, and what the user expected did not come out",
    State.FAILED: "the harness could not do its work",
    State.UNKNOWN: "nobody can say",
    State.CUT: "its harness was killed; highwater check judges what there is",
    State.UNJUDGED: "highwater check judges it",
    State.RUNNING: "it goes on",
    State.LOSSES: "the contract is kept, and it permitted that acknowledged writes were lost",
    State.VALID: "the contract is kept, and no acknowledged write was lost",
}


_STATES: Final[Mapping[Standing, State]] = {
    Standing.BROKEN: State.INVALID,
    Standing.UNMET: State.UNMET,
    Standing.UNDECIDED: State.UNKNOWN,
    Standing.LOSSES: State.LOSSES,
    Standing.CLEAN: State.VALID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was done to the cluster, in ns since the start of the run."""

    name: str
    label: str
    started_ns: int | None
    healed_ns: int | None
    took_effect: bool
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What became of a topic's sends; None where it is not known."""

    name: str
    acks: str
    sent: int | None
    acked: int | None
    failed: int | None
    indeterminate: int | None
    lost: int | None
    forbidden: int | None
    duplicated: int | None
    reordered: int | None
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run."""

    place: Place
    state: State
    said: str
    """One sentence."""
    plan: str
    run_id: str
    started_ns: int | None
    """UTC, since 1970."""
    chaos_s: float | None
    took_s: float | None
    seed: int | None
    target: str
    system: str
    broker: str
    nodes: int | None
    commit: str
    faults: tuple[Fault, ...]
    topics: tuple[Topic, ...]
    anomalies: Mapping[str, int]
    """Of each kind and judgement, such as "lost-write forbidden"."""
    night: str
    """The suite that ran it, empty where nobody did but a person."""
    has_report: bool

    @property
    def acked(self) -> int:
        """Of all topics."""
        return sum(topic.acked or 0 for topic in self.topics)

    @property
    def p99_ms(self) -> float | None:
        """Of the slowest topic."""
        return max((t.p99_ms for t in self.topics if t.p99_ms is not None), default=None)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """Each once, in the order in which they struck."""
        return tuple(dict.fromkeys(fault.name for fault in self.faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The parts of a run, as they were read; empty where there is none."""

    run: Json
    plan: Json
    verdict: Json
    faults: Sequence[Json]
    """Rows of faults.parquet, or what the journal says of them."""
    journal: Sequence[Json]
    has_report: bool


def summary(place: Place, files: Files, *, alive: bool) -> Summary:
    """A run in short. `alive`: somebody holds its journal."""
    run, plan = files.run, files.plan
    state = _state(files, alive=alive)
    started_ns = _whole(run.get("started_wall_ns"))
    return Summary(
        place=place,
        state=state,
        said=_said(state, files),
        plan=_text(plan.get("name")) or (place[-2] if len(place) > 1 else place[-1]),
        run_id=_text(run.get("run_id")),
        started_ns=started_ns,
        chaos_s=_real(plan.get("duration_s")),
        took_s=_took_s(files, started_ns),
        seed=_whole(plan.get("seed")),
        target=_text(plan.get("target")),
        system=_text(plan.get("system")),
        broker=_text(plan.get("broker_module")),
        nodes=_whole(plan.get("nodes")),
        commit=_text(run.get("commit")),
        faults=tuple(_fault(row) for row in files.faults),
        topics=tuple(_topic(row) for row in _rows(files.verdict.get("topics"))),
        anomalies=_anomalies(files.verdict),
        night=place[1] if len(place) > 2 and place[0] == NIGHTLY else "",
        has_report=files.has_report,
    )


def faults_of_journal(journal: Sequence[Json]) -> list[Json]:
    """The faults as far as the journal of a run knows them, in the columns of the record."""
    found: dict[object, dict[str, Any]] = {}
    for entry in journal:
        number = entry.get("fault_id")
        match entry.get("kind"):
            case "fault":
                named = {key: entry.get(key) for key in ("fault", "label")}
                found[number] = {**named, "started_ns": entry.get("at_ns"), "took_effect": False}
            case "fault-effective" if number in found:
                found[number] |= {"took_effect": True, "effect": entry.get("effect")}
            case "fault-healed" if number in found:
                found[number]["healed_ns"] = entry.get("at_ns")
    return list(found.values())


def _state(files: Files, *, alive: bool) -> State:
    if alive:
        return State.RUNNING
    if files.verdict:
        return _STATES[headline.of(files.verdict).standing]
    if files.run.get("failed_phase"):
        broken = _text(files.run.get("error")).startswith(BROKEN)
        return State.INVALID if broken else State.FAILED
    ended = not files.journal or any(entry.get("kind") == "undone" for entry in files.journal)
    return State.UNJUDGED if ended else State.CUT


def _said(state: State, files: Files) -> str:
    match state:
        case State.FAILED:
            said = f"in the phase {files.run.get('failed_phase')!r}: {files.run.get('error')}"
        case State.RUNNING | State.CUT:
            done = [str(each) for each in files.run.get("finished") or ()]
            said = f"finished: {', '.join(done) or 'nothing'}"
        case State.UNJUDGED:
            said = MEANINGS[state]
        case State.INVALID if not files.verdict:
            said = f"an invariant does not hold: {files.run.get('error')}".replace(BROKEN, "")
        case _:
            said = words.why(files.verdict)
    return said[:LONGEST_SAID]


def _took_s(files: Files, started_ns: int | None) -> float | None:
    """From its start to the last that was written down; of a simulated run its own seconds."""
    simulated = files.run.get("simulation")
    if isinstance(simulated, dict):
        return _real(simulated.get("seconds"))
    last_ns = max((_whole(entry.get("wall_ns")) or 0 for entry in files.journal), default=0)
    return (last_ns - started_ns) / 1e9 if started_ns and last_ns > started_ns else None


def _fault(row: Json) -> Fault:
    return Fault(
        name=_text(row.get("fault")),
        label=_text(row.get("label")),
        started_ns=_whole(row.get("started_ns")),
        healed_ns=_whole(row.get("healed_ns")),
        took_effect=bool(row.get("took_effect")),
        effect=_text(row.get("effect")) or _text(row.get("error")),
    )


def _topic(row: Json) -> Topic:
    acks = _whole(row.get("acks"))
    return Topic(
        name=_text(row.get("topic")),
        acks="?" if acks is None else acks_name(acks),
        forbidden=_whole(row.get("lost_forbidden")),
        p50_ms=_real(row.get("p50_ms")),
        p99_ms=_real(row.get("p99_ms")),
        sent=_whole(row.get("sent")),
        acked=_whole(row.get("acked")),
        failed=_whole(row.get("failed")),
        indeterminate=_whole(row.get("indeterminate")),
        lost=_whole(row.get("lost")),
        duplicated=_whole(row.get("duplicated")),
        reordered=_whole(row.get("reordered")),
    )


def _anomalies(verdict: Json) -> Mapping[str, int]:
    """In the verdict's order."""
    found: dict[str, int] = {}
    for row in _rows(verdict.get("anomalies")):
        key = f"{_text(row.get('kind'))} {_text(row.get('judgement'))}".strip()
        found[key] = found.get(key, 0) + (_whole(row.get("count")) or 0)
    return found


def _rows(found: object) -> list[Json]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _text(found: object) -> str:
    return found[:LONGEST_SAID] if isinstance(found, str) else ""


def _whole(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _real(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def flat(value: object, prefix: str = "") -> dict[str, str]:
    """JSON as dotted names and texts, for comparing; lists of plain values stay whole."""
    if isinstance(value, dict):
        named = [(f"{prefix}.{key}" if prefix else str(key), each) for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        named = [(f"{prefix}[{number}]", each) for number, each in enumerate(value)]
    else:
        return {prefix: _text(str(value))}
    return dict(itertools.chain.from_iterable(flat(each, name).items() for name, each in named))
