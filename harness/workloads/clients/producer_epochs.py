"""Reads from librdkafka's log when and why an idempotent producer began a new producer epoch.

A broker recognises a batch that it already has by producer id, epoch and sequence (KIP-98).
librdkafka leaves an epoch by itself when it cannot go on in it, for all its partitions at once. It
sends unacknowledged messages again, with sequences from 0 on. Batches that were appended in the old
epoch are then appended twice, and no broker can know. Only librdkafka's debug log (`debug=eos`)
says whether the client itself or a broker caused that; its callbacks do not:

- "skipped sequence numbers": a batch was refused as out of order after an earlier batch of the
  partition had failed for another reason. The client sent further batches before it sent the failed
  one again. The broker, which lacks the failed batch, was right to refuse. Only the last failure is
  logged. After a failure, batches that are queued behind those in flight are taken back unsent,
  which counts as a failure too: then the line says of the earlier batch only that it was not
  acknowledged.
- "N message(s) timed out": the client gave messages up after its own time-out, so their sequences
  are missing; no broker was involved.
- anything else, such as a refusal of the first batch in order ("sequence desynchronization").
  A broker that keeps its sequences never does that: no excuse.

A line that cannot be parsed is no excuse. Pure: lines and times come in, `EpochBump` values go out.
The wording is that of src/rdkafka_request.c and src/rdkafka_idempotence.c, up to librdkafka 2.16.
"""

import re
from dataclasses import dataclass
from typing import Final

from checkers.history.history import SKIPPED_AHEAD, TIMED_OUT

OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
SKIPPED_REASON: Final = "skipped sequence numbers"
PURGED: Final = "_RETRY"
"""The client's own error of a batch that it took back before it was sent."""
MAX_CAUSES: Final = 64
"""How many causes of one bump are kept; more refusals at once give no new information."""

_WHERE = r"ProduceRequest for (?P<topic>\S+) \[(?P<partition>\d+)\] with \d+ message\(s\) failed "
_SKIPPED = re.compile(
    _WHERE + r"due to skipped sequence numbers \(PID\{.*?\}, base seq (?P<base>\d+) > "
    r"next seq (?P<next>\d+)\) caused by previous failed request \((?P<error>\w+), .*?"
    r"base seq (?P<first>\d+)\.\.(?P<last>\d+), base msgid (?P<message>\d+), "
)
_NUMBERS = ("base", "next", "first", "last", "message")
_DESYNCHRONIZED = re.compile(_WHERE + r"due to sequence desynchronization ")
_DRAIN = re.compile(
    r"Beginning partition drain (?:in state \w+ )?for PID\{.*?\} (?:epoch bump|reset) "
    r"for \d+ partition\(s\) with in-flight requests: (?P<reason>.+)"
)
_GIVEN_UP = re.compile(r"\d+ message\(s\) timed out on \S+ \[\d+\]")
_DRAINED = re.compile(r"All partitions drained")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBatch:
    """A batch that was refused as out of order."""

    error: str
    """SKIPPED_AHEAD and the earlier batch's error if the client had skipped that batch; else what
    happened."""
    topic: str | None = None
    partition: int | None = None
    """None when the line could not be parsed."""
    failed_message: int | None = None
    """The number, from 1 on, of the client's message to the partition with which the earlier batch
    began, or else of the last message before the refused batch. The broker that refused lacked this
    message and all later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainBegan:
    """Nothing new is sent from here on; `reason` is librdkafka's text."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Nothing is in flight any more; later messages belong to the new epoch."""


def parse(facility: str, text: str) -> RefusedBatch | DrainBegan | Drained | None:
    """Parse a line of librdkafka's log; None for a line about something else."""
    match facility:
        case "ERRSEQ":
            return _refused(text)
        case "FATAL" if found := _DESYNCHRONIZED.search(text):
            return RefusedBatch(
                error="refused at the head of the line",
                topic=found["topic"],
                partition=int(found["partition"]),
            )
        case "DRAIN" if found := _DRAIN.search(text):
            return DrainBegan(reason=found["reason"])
        case "DRAIN" if _DRAINED.search(text):
            return Drained()
        case _:
            return None


def _refused(text: str) -> RefusedBatch:
    found = _SKIPPED.search(text)
    if found is None:
        return RefusedBatch(error="refused, in words that are not known")
    base, expected, first, last, message = (int(found[name]) for name in _NUMBERS)
    if expected <= first <= last < base and found["error"] != OUT_OF_ORDER:
        error, failed_message = f"{SKIPPED_AHEAD}: {found['error']}", message
    elif expected < base < first and found["error"] == PURGED:
        error, failed_message = f"{SKIPPED_AHEAD}: not told", message - (first - base) - 1
    else:
        error = (
            f"refused out of order, after {found['error']} (sequence {base}, expected {expected}, "
            f"failed {first}..{last})"
        )
        failed_message = message
    return RefusedBatch(
        error=error,
        topic=found["topic"],
        partition=int(found["partition"]),
        failed_message=failed_message,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBump:
    """A producer left its epoch. Times are when the log lines were read, a little later than the
    events."""

    began_ns: int
    """From when on it sent nothing more in the old epoch."""
    begun_ns: int | None
    """When it could send in the new epoch; None when the client ended before."""
    causes: tuple[RefusedBatch, ...]
    """At least one."""


class EpochLogReader:
    """Combines the lines of one producer's log into epoch bumps."""

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._causes: dict[tuple[str, int | None], RefusedBatch] = {}
        # The first refused batch of a partition counts: later ones are refused because of it.

    def read(self, facility: str, text: str, at_ns: int) -> EpochBump | None:
        """Add a line that was read at `at_ns`; return a bump when the line completes one."""
        match parse(facility, text):
            case RefusedBatch() as refused:
                self._add(refused)
            case DrainBegan(reason=reason):
                if self._began_ns is None:
                    self._began_ns = at_ns
                if _GIVEN_UP.fullmatch(reason):
                    self._add(RefusedBatch(error=f"{TIMED_OUT}: {reason}"))
                elif reason != SKIPPED_REASON or not self._causes:
                    self._add(RefusedBatch(error=reason))
            case Drained():
                return self._end(at_ns)
            case None:
                pass
        return None

    def close(self) -> EpochBump | None:
        """Return the bump that was in progress when the client ended."""
        return self._end(None)

    def _add(self, refused: RefusedBatch) -> None:
        key = (refused.topic or refused.error, refused.partition)
        if len(self._causes) < MAX_CAUSES:
            self._causes.setdefault(key, refused)

    def _end(self, begun_ns: int | None) -> EpochBump | None:
        if self._began_ns is None:
            return None
        bump = EpochBump(
            began_ns=self._began_ns, begun_ns=begun_ns, causes=tuple(self._causes.values())
        )
        self._began_ns = None
        self._causes = {}
        return bump
