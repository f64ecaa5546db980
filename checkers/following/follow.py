"""From the segments of a run to its first alarm.

Each look reads the segments that were sealed since the last look. The detectors and the contract
judge their suspects on the rows of the run that concern them: at once, or one look later if a row
of another writer may excuse the suspect, because that writer may seal the row later. What a group
lacks is looked for one look after the commit.

The caller supplies the run's other tables (`live`), waits, knows when the run is over, and reports
the alarm.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.causes.matching import MARKER
from checkers.check import judged
from checkers.contract.conditions import DELIVERED_AGAIN, IN_TRANSACTION, OPEN
from checkers.contract.contract import Judgement, in_force
from checkers.detectors.outputs import TORN, UNKNOWN, program_of
from checkers.engines.engine import DuckDbEngine, Engine, Frame, as_frame
from checkers.following.evidence import FAMILIES, as_if_over, concerns
from checkers.following.state import HistoryState
from checkers.following.suspects import Suspect
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.transactions import ANYWHERE
from checkers.history import arrow
from checkers.history.history import HISTORY, RunSources, conform
from checkers.history.segments import segment_of
from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from checkers.verdict import Anomaly

SUSPECTS = 20
"""The limit of suspects of one kind in one partition, between two looks."""

_AT_ONCE = (
    "phantom", "inconsistent-offset", "lost-write", "nonmonotonic-poll", TORN, UNKNOWN,
)  # fmt: skip
"""The kinds of suspects that no row of another writer may excuse."""
_OF_TRANSACTIONS = ("torn-transaction", "false-abort", "zombie-write", "aborted-read")
"""The kinds that a coordinator may cause that has forgotten a transaction."""
_OF_COPIES = ("copied-twice", "copied-out-of-order")
_COORDINATORS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
_LOSSES = ("lost-write", "torn-transaction")
_FINDINGS = pa.schema(
    [
        *(HISTORY.field(name) for name in ("op", "client", "topic", "partition", "value")),
        *(HISTORY.field(name) for name in ("offset", "invoke_ns", "complete_ns")),
        *(HISTORY.field(name) for name in ("leader_epoch", "node")),
        pa.field("acks", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("other_op", pa.int64()),
        pa.field("other_offset", pa.int64()),
    ]
)


@dataclass(slots=True, kw_only=True)
class Follower:
    """Follows one run by repeated calls of `look`. plan: the plan of the run."""

    plan: Mapping[str, Any]
    live: Callable[[], RunSources]
    history_state: HistoryState = field(default_factory=HistoryState)
    segments: int = 0
    _next: dict[str, int] = field(default_factory=dict)
    _held: list[Suspect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history_state.follow_program(program_of(self.plan))
        self.history_state.follow_keys(self.plan)

    def look(self, history: Path) -> tuple[Anomaly, ...]:
        """Read the segments of `history` that were sealed since the last look, and return forbidden
        anomalies.

        Raises HistoryError when the run cannot be read.
        """
        fresh = self._fresh(history)
        if not fresh:
            return ()
        ripe, self._held = self._held, []
        found: Counter[tuple[str, str, int]] = Counter()
        for path in fresh:
            rows = conform(arrow.read(path), HISTORY)
            for suspect in _few(self.history_state.take(rows), found):
                waits = suspect.kind not in _AT_ONCE
                (self._held if waits else ripe).append(suspect)
        ripe += _few(self.history_state.settle(), found)
        self.segments += len(fresh)
        return self._judge(ripe)

    def finish(self) -> tuple[Anomaly, ...]:
        """Judge the last suspects after the end of the run, and return forbidden anomalies."""
        ripe, self._held = self._held, []
        found: Counter[tuple[str, str, int]] = Counter()
        for _ in range(2):  # the first call only marks what the last rows committed
            ripe += _few(self.history_state.settle(), found)
        return self._judge(ripe)

    def _judge(self, suspects: Sequence[Suspect]) -> tuple[Anomaly, ...]:
        if not suspects:
            return ()
        engine = DuckDbEngine()
        try:
            return forbidden(engine, self.live(), self.plan, suspects)
        finally:
            engine.close()

    def _fresh(self, history: Path) -> list[Path]:
        """Return the sealed segments that were not read yet, the oldest of all writers first. A
        stream without segments counts as its own first segment."""
        found = []
        for path in sorted(history.glob("*.parquet")):
            writer, number = segment_of(path.stem) or (path.stem, 0)
            if number >= self._next.get(writer, 0):
                found.append((number, writer, path))
        for number, writer, _ in found:
            self._next[writer] = max(number + 1, self._next.get(writer, 0))
        return [path for _, _, path in sorted(found)]


def _few(suspects: Iterable[Suspect], found: Counter[tuple[str, str, int]]) -> Iterator[Suspect]:
    """Leave out those beyond SUSPECTS, and count all in `found`."""
    for each in suspects:
        key = (each.kind, each.topic, each.partition)
        found[key] += 1
        if found[key] <= SUSPECTS:
            yield each


def forbidden(
    engine: Engine, sources: RunSources, plan: Mapping[str, Any], suspects: Sequence[Suspect]
) -> tuple[Anomaly, ...]:
    """Return the suspects that the contract forbids, whatever rows may still come."""
    anomalies: list[Anomaly] = []
    for family in FAMILIES:
        mine = [each for each in suspects if family.judges(each.kind)]
        if not mine:
            continue
        frames = Frames(engine, sources, plan)
        rows = engine.materialize(frames.history.where(concerns(frames, mine)))
        frames.history = as_if_over(engine, rows) if family.needs_log else rows
        found: list[Frame] = [each for detect in family.detectors for each in detect(frames)]
        found += [*_findings(frames, [each for each in mine if each.evidence is not None])]
        alarms = [each for one in found for each in judged(frames, one, settled=False)]
        anomalies += [each for each in alarms if not _may_be_forgotten(frames, each)]
    # A record may be read before its send is recorded: only the end shows that it was not sent.
    return tuple(
        each
        for each in anomalies
        if each.judgement is Judgement.FORBIDDEN and each.aspect != "unsent"
    )


def _may_be_forgotten(frames: Frames, anomaly: Anomaly) -> bool:
    """Whether the coordinator of a transaction or of a group may have forgotten it with permission,
    or the partition may have lost its marker, as far as is known: the leaders and epochs, which
    decide that, are mostly recorded after the run."""
    if anomaly.kind in _OF_COPIES and anomaly.aspect == DELIVERED_AGAIN:
        led = {topic for topic, _ in frames.causes.led}
        return any(_may_lose(frames, topic, None) for topic in {*_COORDINATORS} - led)
    told = anomaly.kind != "aborted-read" or anomaly.aspect in (IN_TRANSACTION, OPEN)
    if anomaly.kind not in _OF_TRANSACTIONS or not told:
        return False
    place = anomaly.topic, anomaly.partition
    if place not in frames.causes.recorded and _may_lose(frames, *place):
        return True  # perhaps the marker
    recorded = any(topic == TRANSACTIONS_TOPIC for topic, _ in frames.causes.led)
    if recorded and anomaly.kind not in _LOSSES:
        return False
    return _may_lose(frames, TRANSACTIONS_TOPIC, None)


def _may_lose(frames: Frames, topic: str | None, partition: int | None) -> bool:
    """Whether any event of the run permits the loss of committed records of the partition."""
    settings = in_force(frames.settings(topic))
    lost = frames.state_losses.certain(topic, partition)
    return replace(settings, state_lost=lost).may_lose_committed


def _findings(frames: Frames, suspects: Sequence[Suspect]) -> list[Frame]:
    """Return frames of evidence for suspects that are evidence already."""
    engine, F = frames.engine, frames.engine.functions
    names = set(_FINDINGS.names)
    rows = [
        {name: value for name, value in (each.evidence or {}).items() if name in names}
        | {"kind": each.kind}
        for each in suspects
    ]
    found = []
    for kind in sorted({each.kind for each in suspects}):
        loaded = as_frame(engine, (r for r in rows if r["kind"] == kind), _FINDINGS)
        if kind == "torn-transaction":
            # The rows of the producer's next transaction, which bound the marker, may be dropped.
            loaded = loaded.withColumn(MARKER, F.lit(ANYWHERE).cast("bigint"))
        known = frames.with_causes(loaded) if kind in _LOSSES else loaded
        found.append(evidence(engine, known, kind=F.lit(kind)))
    return found
