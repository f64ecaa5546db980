"""Which rows concern a suspect, and which detectors judge them.

Every family of suspects is judged by itself, on rows that are complete for its detectors: no row of
another suspect makes a detector miss a row that it needs. Some detectors compare with the final
log, which does not exist yet: the records that were polled so far stand for it.
"""

import functools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from checkers.detectors.compacted import unsent_records
from checkers.detectors.compacted_passes import keyed_passes
from checkers.detectors.copies import OUT_OF_ORDER, TWICE, UNCOPIED, judged_copies
from checkers.detectors.deliveries import SKIPPED, deliveries_again, skipped_records
from checkers.detectors.durability import aborted_reads, phantoms
from checkers.detectors.groups import lost_commits, stale_commits
from checkers.detectors.open_transactions import open_reads
from checkers.detectors.ordering import duplicates, inconsistent_offsets, reordered_sends
from checkers.detectors.outputs import OUT_OF_ORDER as MOVED
from checkers.detectors.outputs import REREAD, TORN, UNKNOWN, early_outputs
from checkers.detectors.outputs import TWICE as AGAIN
from checkers.detectors.transactions import FALSE_ABORT, false_aborts, zombie_writes
from checkers.engines.engine import Engine, Frame
from checkers.following.keys import OF_KEYS, OF_RECORDS
from checkers.following.suspects import Suspect
from checkers.frames.frames import Detect, Frames
from checkers.frames.ownership import ASSIGNED, GROUP, LOST, REVOKED
from checkers.history.history import (
    ABORT,
    COMMIT,
    INIT,
    KEYED_DELETE,
    KEYED_PASS,
    KEYED_POLL,
    KEYED_WRITE,
    PRODUCER_EPOCH,
    TP,
)

AROUND: Final = 1_000
"""A delivery to a group concerns the deliveries at so many offsets around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Suspects that are judged together. kinds: empty for all that no other family has."""

    detectors: tuple[Detect, ...]
    kinds: tuple[str, ...] = ()
    needs_log: bool = False

    def judges(self, kind: str) -> bool:
        """Whether suspects of this kind belong to the family."""
        return kind in self.kinds if self.kinds else kind not in _OF_OTHERS


_OF_A_LOG: Final = (UNCOPIED, TWICE, OUT_OF_ORDER, FALSE_ABORT)
OF_OUTPUTS: Final = (TORN, UNKNOWN, AGAIN, MOVED)
_OF_OTHERS: Final = (*_OF_A_LOG, SKIPPED, *OF_OUTPUTS, OF_KEYS, OF_RECORDS)
FAMILIES: Final = (
    Family(
        detectors=(
            duplicates, inconsistent_offsets, reordered_sends, aborted_reads, phantoms,
            open_reads, zombie_writes, lost_commits, stale_commits, deliveries_again,
        ),
    ),
    Family(kinds=_OF_A_LOG, detectors=(judged_copies, false_aborts), needs_log=True),
    Family(kinds=(SKIPPED,), detectors=(skipped_records,), needs_log=True),
    Family(kinds=OF_OUTPUTS, detectors=(early_outputs,)),
    Family(kinds=(OF_KEYS,), detectors=(keyed_passes,)),
    # Without passes it compares records only.
    Family(kinds=(OF_RECORDS,), detectors=(keyed_passes, unsent_records)),
)  # fmt: skip


def concerns(frames: Frames, suspects: Iterable[Suspect]) -> Any:
    """Return the condition for rows about suspects: rows of their values, copies of these, polls at
    their offsets, the rows of their keys, the calls of their groups, the ends of their
    transactions, what a group may pass over, and the resets of consumers."""
    F = frames.engine.functions
    listed = list(suspects)
    conditions = [F.col("f").isin("start", "end", PRODUCER_EPOCH, REREAD)]
    conditions.append((F.col("f") == F.lit("assign")) & F.col("error").isNotNull())
    if values := sorted({value for each in listed for value in each.values}):
        conditions += [F.col("value").isin(*values), F.col("copies").isin(*values)]
    conditions += _of_keys(frames, [each for each in listed if each.kind in (OF_KEYS, OF_RECORDS)])
    listed = [each for each in listed if each.kind not in (OF_KEYS, OF_RECORDS)]
    if ops := sorted({each.op for each in listed if each.op is not None}):
        conditions.append(F.col("op").isin(*ops))
    if groups := sorted({each.group for each in listed if each.group is not None}):
        calls = F.col("f").isin(ASSIGNED, REVOKED, LOST, "offset-commit")
        conditions.append(calls & F.col("group").isin(*groups))
    if txns := sorted({each.txn for each in listed if each.txn is not None}):
        conditions.append(F.col("f").isin("send", COMMIT, ABORT) & F.col("txn").isin(*txns))
    if ids := sorted({each.transactional_id for each in listed if each.transactional_id}):
        conditions.append((F.col("f") == F.lit(INIT)) & F.col("transactional_id").isin(*ids))
    conditions += [_polls_near(frames, each) for each in listed if each.offset is not None]
    conditions += _not_committed(frames, [each for each in listed if each.kind == SKIPPED])
    return functools.reduce(operator.or_, conditions)


def _of_keys(frames: Frames, suspects: Iterable[Suspect]) -> Iterator[Any]:
    """Of each partition: the rows of the suspects' keys, and those passes of which everything is
    recorded that may excuse something."""
    F = frames.engine.functions
    by_partition: dict[tuple[str, int], list[Suspect]] = {}
    for each in suspects:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    for (topic, partition), mine in by_partition.items():
        here = (F.col("topic") == F.lit(topic)) & (F.col("partition") == F.lit(partition))
        keys = sorted({each.key for each in mine if each.key is not None})
        of_keys = F.col("f").isin(KEYED_WRITE, KEYED_DELETE, KEYED_POLL)
        yield here & of_keys & (F.col("key").isNull() | F.col("key").isin(*keys))
        last = max((each.op for each in mine if each.op and each.kind == OF_KEYS), default=-1)
        yield here & (F.col("f") == F.lit(KEYED_PASS)) & (F.col("op") <= F.lit(last))


def _not_committed(frames: Frames, suspects: Iterable[Suspect]) -> Iterator[Any]:
    """The writes of transactions that are not known to be committed, and the ends of these."""
    F = frames.engine.functions
    places = {(each.topic, each.partition) for each in suspects}
    if not places:
        return
    doubtful = F.col("txn").isNotNull() & (F.col("type") != F.lit("ok"))
    for topic, partition in sorted(places):
        here = (F.col("topic") == F.lit(topic)) & (F.col("partition") == F.lit(partition))
        yield here & (F.col("f") == F.lit("send")) & doubtful
    yield (F.col("f") == F.lit(ABORT)) | ((F.col("f") == F.lit(COMMIT)) & doubtful)


def _polls_near(frames: Frames, suspect: Suspect) -> Any:
    """Polls at the suspect's offset; of a group, also those around it."""
    F = frames.engine.functions
    assert suspect.offset is not None
    here = (
        (F.col("f") == F.lit("poll"))
        & (F.col("topic") == F.lit(suspect.topic))
        & (F.col("partition") == F.lit(suspect.partition))
    )
    if suspect.group is None:
        return here & (F.col("offset") == F.lit(suspect.offset))
    near = F.col("offset") >= F.lit(suspect.offset - AROUND)
    return here & near & (F.col("offset") <= F.lit(suspect.offset + AROUND))


def as_if_over(engine: Engine, history: Frame) -> Frame:
    """Add final reads of the records that were polled, and as final commits the greatest
    acknowledged ones. history: of HISTORY."""
    F = engine.functions
    polls = history.where((F.col("f") == F.lit("poll")) & F.col("offset").isNotNull())
    committed_first = F.coalesce(F.col("isolation"), F.lit(1)).desc()
    along = engine.window.partitionBy(*TP, "offset", "value").orderBy(committed_first, "op")
    commits = history.where((F.col("f") == F.lit("offset-commit")) & (F.col("type") == F.lit("ok")))
    down = engine.window.partitionBy(*GROUP).orderBy(F.col("offset").desc(), "op")
    made = history
    for rows, order, f in ((polls, along, "final-read"), (commits, down, "final-committed")):
        numbered = rows.withColumn("nth", F.row_number().over(order))
        first = numbered.where(F.col("nth") == F.lit(1)).drop("nth")
        named = first.withColumn("f", F.lit(f)).withColumn("type", F.lit("ok"))
        made = made.unionByName(named.select(*history.columns))
    return engine.materialize(made)
