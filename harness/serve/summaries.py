"""A run in short, from its own files, for lists of thousands of runs. Pure.

Nothing here fails because of missing or damaged files: a run whose harness was killed has no
verdict, and a file may contain anything. Long texts are cut.
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

LONGEST_SENTENCE: Final = 600
NIGHTLY: Final = "nightly"
CLUSTER: Final = "cluster"
"""The plan's name of `highwater cluster up`."""
BROKEN: Final = "InvariantBroken: "
"""The start of the error of a simulated run that broke an invariant: a violation."""


class State(enum.StrEnum):
    """The state of a run. The gravest comes first."""

    INVALID = "INVALID"
    MISSED = "canary missed"
    UNMET = "expectation failed"
    FAILED = "failed"
    UNKNOWN = "UNKNOWN"
    CUT = "cut"
    UNJUDGED = "not judged"
    RUNNING = "running"
    LOSSES = "VALID, losses"
    CANARY = "canary found"
    VALID = "VALID"
    CLUSTER = "cluster"


MEANINGS: Final[Mapping[State, str]] = {
    State.INVALID: "the contract is broken",
    State.MISSED: "a night expected to detect this broken broker, and the run did not",
    State.UNMET: "the contract is not broken, but an expectation of the user failed",
    State.FAILED: "the harness failed",
    State.UNKNOWN: "the verdict could not be decided",
    State.CUT: "its harness was killed; highwater check judges what was recorded",
    State.UNJUDGED: "highwater check judges it",
    State.RUNNING: "the run goes on",
    State.LOSSES: "the contract is kept, and it permitted that acknowledged writes were lost",
    State.CANARY: "a night detected this broken broker, as it must",
    State.VALID: "the contract is kept, and no acknowledged write was lost",
    State.CLUSTER: "a cluster that was started by hand, without a test",
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
    """One fault; times in ns since the start of the run."""

    name: str
    label: str
    started_ns: int | None
    healed_ns: int | None
    took_effect: bool
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The sends of a topic. None: not known."""

    name: str
    acks: str
    sent: int | None
    acked: int | None
    failed: int | None
    info: int | None
    lost: int | None
    forbidden: int | None
    duplicated: int | None
    reordered: int | None
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in short."""

    place: Place
    state: State
    sentence: str
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
    """Counts by kind and judgement, such as "lost-write forbidden"."""
    night: str
    """The suite that ran it; empty when a person did."""
    has_report: bool

    @property
    def acked(self) -> int:
        """Acknowledged sends of all topics."""
        return sum(topic.acked or 0 for topic in self.topics)

    @property
    def lost(self) -> int | None:
        """Acknowledged writes that were lost, permitted or not; None: not known. An acks=0 write
        was never acknowledged."""
        known = [
            topic.lost for topic in self.topics if topic.acks != "0" and topic.lost is not None
        ]
        return sum(known) if known else None

    @property
    def forbidden(self) -> int:
        """Lost writes whose loss the contract forbids."""
        return sum(topic.forbidden or 0 for topic in self.topics)

    @property
    def p99_ms(self) -> float | None:
        """The p99 latency of the slowest topic."""
        return max((t.p99_ms for t in self.topics if t.p99_ms is not None), default=None)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """The faults, each once, in the order in which they were injected."""
        return tuple(dict.fromkeys(fault.name for fault in self.faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The parts of a run as they were read; missing parts are empty."""

    run: Json
    plan: Json
    verdict: Json
    faults: Sequence[Json]
    """Rows of faults.parquet, or of the journal."""
    journal: Sequence[Json]
    has_report: bool
    has_schedule: bool = True
    """Every run has one. A cluster that was started by hand has none."""


def summarize(place: Place, files: Files, *, alive: bool) -> RunSummary:
    """Return a run in short. `alive`: a process holds the lock on its journal."""
    run, plan = files.run, files.plan
    state = _state(files, alive=alive)
    started_ns = _whole(run.get("started_wall_ns"))
    return RunSummary(
        place=place,
        state=state,
        sentence=_sentence(state, files, alive=alive),
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
    """Return the faults that a run's journal has, in the columns of faults.parquet."""
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
    if files.plan.get("name") == CLUSTER and not files.has_schedule and not files.verdict:
        return State.CLUSTER
    if alive:
        return State.RUNNING
    if files.verdict:
        return _STATES[headline.of(files.verdict).standing]
    if files.run.get("failed_phase"):
        broken = _text(files.run.get("error")).startswith(BROKEN)
        return State.INVALID if broken else State.FAILED
    return State.UNJUDGED if _has_ended(files) else State.CUT


def _has_ended(files: Files) -> bool:
    return not files.journal or any(entry.get("kind") == "undone" for entry in files.journal)


def _sentence(state: State, files: Files, *, alive: bool) -> str:
    match state:
        case State.FAILED:
            sentence = f"in the phase {files.run.get('failed_phase')!r}: {files.run.get('error')}"
        case State.RUNNING | State.CUT:
            done = [str(each) for each in files.run.get("finished") or ()]
            sentence = f"finished: {', '.join(done) or 'nothing'}"
        case State.CLUSTER:
            ended = _has_ended(files) and not alive
            servers = _text(files.run.get("bootstrap"))
            sentence = "the cluster is down" if ended else f"the cluster was started: {servers}"
        case State.UNJUDGED:
            sentence = MEANINGS[state]
        case State.INVALID if not files.verdict:
            sentence = f"an invariant is broken: {files.run.get('error')}".replace(BROKEN, "")
        case _:
            sentence = words.why(files.verdict)
    return sentence[:LONGEST_SENTENCE]


def _took_s(files: Files, started_ns: int | None) -> float | None:
    """Return the time from the start to the last journal entry; of a simulated run, its own
    time."""
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
        info=_whole(row.get("indeterminate")),
        lost=_whole(row.get("lost")),
        duplicated=_whole(row.get("duplicated")),
        reordered=_whole(row.get("reordered")),
    )


def _anomalies(verdict: Json) -> Mapping[str, int]:
    """Return the counts in the order of the verdict."""
    found: dict[str, int] = {}
    for row in _rows(verdict.get("anomalies")):
        key = f"{_text(row.get('kind'))} {_text(row.get('judgement'))}".strip()
        found[key] = found.get(key, 0) + (_whole(row.get("count")) or 0)
    return found


def _rows(found: object) -> list[Json]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _text(found: object) -> str:
    return found[:LONGEST_SENTENCE] if isinstance(found, str) else ""


def _whole(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _real(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def flat(value: object, prefix: str = "") -> dict[str, str]:
    """Return JSON as dotted names and texts, for comparisons. Lists of plain values stay whole."""
    if isinstance(value, dict):
        named = [(f"{prefix}.{key}" if prefix else str(key), each) for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        named = [(f"{prefix}[{number}]", each) for number, each in enumerate(value)]
    else:
        return {prefix: _text(str(value))}
    return dict(itertools.chain.from_iterable(flat(each, name).items() for name, each in named))
