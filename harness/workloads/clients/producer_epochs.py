"""When, and why, an idempotent librdkafka producer began a new producer epoch: read from its log.

A broker knows a batch that it already has by producer id, epoch and sequence (KIP-98). librdkafka
leaves an epoch by itself when it can no longer go on in it, for all its partitions at once, and
sends what is not yet acknowledged again under sequences from 0 on: batches that the old epoch did
append are then appended twice, and no broker can know. Whether that was the client's own doing or
a broker's fault is said in its debug log (`debug=eos`) and nowhere else, not in its callbacks:

- "skipped sequence numbers": a batch was refused as out of order after an earlier batch of the
  partition had failed for another reason. The client sent on before it sent that one again; the
  broker, which lacks it, was right to refuse. Only the last failure is told. Once a batch has
  failed, what is queued behind those in flight is taken back unsent, and that counts as one: then
  the line says of the earlier batch only that it was not acknowledged.
- "N message(s) timed out": the client gave writes up after its own time-out, whose sequences then
  are missing; no broker was asked.
- anything else, such as a refused head of the line ("sequence desynchronization"), which a broker
  that keeps its sequences never does: no excuse.

What cannot be read is taken as no excuse. Pure: lines and times in, facts and `Bump`s out. The
wording is that of src/rdkafka_request.c and src/rdkafka_idempotence.c, up to librdkafka 2.16.
"""

import re
from dataclasses import dataclass
from typing import Final

from checkers.history.history import SKIPPED_AHEAD, TIMED_OUT

OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
SKIPPED_REASON: Final = "skipped sequence numbers"
PURGED: Final = "_RETRY"
"""What the client itself gives as the error of a batch that it had not sent yet and took back."""
MAX_CAUSES: Final = 64
"""Causes kept of one bump; more partitions than that refusing at once say nothing new."""

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
class Refused:
    """A batch was refused as out of order. error: SKIPPED_AHEAD and the earlier batch's error when
    the client had skipped ahead of that, else what happened; no partition: it could not be read.
    failed_message: which of the client's messages to the partition, from 1 on, was the first of the
    earlier batch (where that is not told: the last before the refused one): that one, and all
    behind it, the refusing broker lacked.
    """

    error: str
    topic: str | None = None
    partition: int | None = None
    failed_message: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainBegan:
    """Nothing new is sent from here on, in librdkafka's words because of `reason`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Nothing is in flight any more; what is sent from here on belongs to the new epoch."""


def parse(facility: str, text: str) -> Refused | DrainBegan | Drained | None:
    """The fact that a line of librdkafka's log states; None when it tells of something else."""
    match facility:
        case "ERRSEQ":
            return _refused(text)
        case "FATAL" if found := _DESYNCHRONIZED.search(text):
            return Refused(
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


def _refused(text: str) -> Refused:
    found = _SKIPPED.search(text)
    if found is None:
        return Refused(error="refused, in words that are not known")
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
    return Refused(
        error=error,
        topic=found["topic"],
        partition=int(found["partition"]),
        failed_message=failed_message,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """A producer left its epoch.

    began_ns: from when on it sent nothing more under the old epoch. begun_ns: when it could send
    under the new one; None when that was not seen before the client ended. causes: at least one.
    Times are those at which the lines were read: a little later than what they tell of.
    """

    began_ns: int
    begun_ns: int | None
    causes: tuple[Refused, ...]


class EpochWatch:
    """Puts one producer's facts together, in the order of its log."""

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._causes: dict[tuple[str, int | None], Refused] = {}
        # Of a partition the first counts: what was in flight behind it is refused because of it.

    def read(self, facility: str, text: str, at_ns: int) -> Bump | None:
        """Take a line, read at `at_ns`; a bump when the line completes one."""
        match parse(facility, text):
            case Refused() as refused:
                self._add(refused)
            case DrainBegan(reason=reason):
                if self._began_ns is None:
                    self._began_ns = at_ns
                if _GIVEN_UP.fullmatch(reason):
                    self._add(Refused(error=f"{TIMED_OUT}: {reason}"))
                elif reason != SKIPPED_REASON or not self._causes:
                    self._add(Refused(error=reason))
            case Drained():
                return self._end(at_ns)
            case None:
                pass
        return None

    def close(self) -> Bump | None:
        """The bump that was under way when the client ended."""
        return self._end(None)

    def _add(self, refused: Refused) -> None:
        key = (refused.topic or refused.error, refused.partition)
        if len(self._causes) < MAX_CAUSES:
            self._causes.setdefault(key, refused)

    def _end(self, begun_ns: int | None) -> Bump | None:
        if self._began_ns is None:
            return None
        bump = Bump(began_ns=self._began_ns, begun_ns=begun_ns, causes=tuple(self._causes.values()))
        self._began_ns = None
        self._causes = {}
        return bump
