"""What a coordinator remembers is what its log says, also after compaction.

A second machine replays the log, and must remember the same: whenever the log has grown by a share,
and when the leadership ends. A third one replays what compaction may leave of the log
(`compacted_log`), and must remember the same too. Only the next leader would notice otherwise.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import compacted, read_entries, replay_entries
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Effects, Machine
from nodes.coordinators.records import RecordError
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.log.log import Log
from nodes.server.coordinators.loading import SLICE_BYTES, replay
from nodes.server.coordinators.shard import Shard, State
from nodes.server.coordinators.shards import Shards
from nodes.server.replicas.replica import Replica

NAME: Final = "coordinators-replay"
AT_LEAST: Final = 16
"""So many writes at least are made between two checks."""
SHARE: Final = 1 / 4
"""By this share of its writes the log grows between two checks. A check costs as much as the whole
log, so with a constant number of writes all checks together would cost its square."""

MakeMachine = Callable[[], Machine]


class Judges(NamedTuple):
    """What judges the coordinators of a node; each gets the replica of the coordinator's log."""

    replay: Callable[[Replica, Machine, MakeMachine], None]
    """Called from time to time, and before the coordinator closes."""
    before: Callable[[Replica, Machine, Effects], None]
    """Called with what an operation wants, before that is done."""
    after: Callable[[Replica, Machine], None]
    """Called when an operation is done."""


def watch_coordinators(shards: Shards[Any], judges: Judges) -> None:
    """Call the judges for each shard from now on."""
    opened = shards._open

    def watched(replica: Replica) -> Shard[Any]:
        shard = opened(replica)
        _watch(shard, shards.make, judges)
        return shard

    vars(shards)["_open"] = watched


def _watch(shard: Shard[Any], make: MakeMachine, judges: Judges) -> None:
    apply, close = shard._apply, shard.close
    writes, due = 0, AT_LEAST

    def applied(effects: Effects, *more: Any) -> None:
        nonlocal writes, due
        judges.before(shard.replica, shard.machine, effects)
        apply(effects, *more)
        judges.after(shard.replica, shard.machine)
        writes += bool(effects.records)
        if writes == due:
            due += max(AT_LEAST, round(writes * SHARE))
            judges.replay(shard.replica, shard.machine, make)

    def closed() -> None:
        if shard.state is State.ACTIVE:
            judges.replay(shard.replica, shard.machine, make)
        close()

    vars(shard)["_apply"] = applied
    vars(shard)["close"] = closed


def check_coordinator(replica: Replica, node: int, machine: Machine, make: MakeMachine) -> None:
    """Raise InvariantBroken unless new machines remember the same after replaying the log, and
    after replaying a compacted log.
    """
    log = replica.log
    if log.offline or replica.retired:
        return
    replayed = make()
    _replay_all(replayed, log)
    live = remembered(machine)
    where = f"{replica.partition}: the coordinator on node {node}"
    what = f"its log from {log.start_offset} to {log.end_offset}"
    _compare(where, what, live, remembered(replayed))
    below, tombstones = _cleaned(log.end_offset, replica.last_stable_offset)
    replayed = make()
    try:
        replay_entries(replayed, compacted(read_entries(log), below, tombstones=tombstones))
    except (RecordError, LookupError) as error:
        raise InvariantBroken(
            NAME, f"{where} could not load {what} after a compaction below {below}: {error!r}"
        ) from error
    kept = "with" if tombstones else "without"
    what = f"{what}, compacted below {below} {kept} tombstones,"
    _compare(where, what, live, remembered(replayed))


def _cleaned(end: int, stable: int) -> tuple[int, bool]:
    """Return how a log is compacted for the next check: below which offset, and whether tombstones
    stay. Each check compacts in one way, because each costs as much as the whole log.
    """
    return ((stable, False), (stable, True), (stable // 2, False))[end % 3]


def _compare(where: str, what: str, live: dict[str, object], said: dict[str, object]) -> None:
    if live != said:
        wrong = [name for name in live if live[name] != said[name]]
        raise InvariantBroken(
            NAME, f"{where} remembers other {wrong} than {what} says: {_difference(live, said)}"
        )


def remembered(machine: Machine) -> dict[str, object]:
    """Return what the log determines of a machine's state."""
    match machine:
        case GroupCoordinator():
            return {
                "offsets": machine.offsets,
                "classic groups": dict(machine.classic.remembered),
                "consumer groups": dict(machine.consumer.remembered()),
            }
        case TransactionCoordinator():
            return {"transactions": dict(machine.transactions)}
        case _:
            raise TypeError(f"{type(machine).__name__} is no known coordinator")


def _replay_all(machine: Machine, log: Log) -> None:
    offset = log.start_offset
    while offset < log.end_offset:
        offset = replay(machine, log.read(offset, SLICE_BYTES, log.end_offset))


def _difference(live: dict[str, object], said: dict[str, object]) -> str:
    """Return the first thing that differs, in a few words."""
    for name, mine in live.items():
        other = said[name]
        if mine == other:
            continue
        if isinstance(mine, dict) and isinstance(other, dict):
            for key in {**mine, **other}:
                if mine.get(key) != other.get(key):
                    return f"{key}: {mine.get(key)!r}, not {other.get(key)!r}"
        return f"{name}"
    return ""
