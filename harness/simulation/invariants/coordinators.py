"""What a coordinator remembers is what its log says.

A second machine replays the log, and must remember the same: after every few writes, and when the
leadership ends. Compaction may have cleaned the log by then, so what it keeps must say the same as
everything that it removed. Only the next leader would notice otherwise.
"""

from collections.abc import Callable
from typing import Any, Final

from harness.simulation.invariants.broken import InvariantBroken
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Effects, Machine
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.log.log import Log
from nodes.server.coordinators.loading import SLICE_BYTES, replay
from nodes.server.coordinators.shard import Shard, State
from nodes.server.coordinators.shards import Shards
from nodes.server.replicas.replica import Replica

EVERY: Final = 16
"""So many writes are made between two checks: a check costs as much as the whole log."""

MakeMachine = Callable[[], Machine]
Judge = Callable[[Replica, Machine, MakeMachine], None]


def watch_coordinators(shards: Shards[Any], judge: Judge) -> None:
    """Call `judge` with the replica and the machine of each shard, from time to time."""
    opened = shards._open

    def watched(replica: Replica) -> Shard[Any]:
        shard = opened(replica)
        _watch(shard, shards.make, judge)
        return shard

    vars(shards)["_open"] = watched


def _watch(shard: Shard[Any], make: MakeMachine, judge: Judge) -> None:
    apply, close = shard._apply, shard.close
    writes = 0

    def applied(effects: Effects, *more: Any) -> None:
        nonlocal writes
        apply(effects, *more)
        writes += bool(effects.records)
        if effects.records and writes % EVERY == 0:
            judge(shard.replica, shard.machine, make)

    def closed() -> None:
        if shard.state is State.ACTIVE:
            judge(shard.replica, shard.machine, make)
        close()

    vars(shard)["_apply"] = applied
    vars(shard)["close"] = closed


def check_coordinator(replica: Replica, node: int, machine: Machine, make: MakeMachine) -> None:
    """Raise InvariantBroken unless a new machine remembers the same after replaying the log."""
    log = replica.log
    if log.offline or replica.retired:
        return
    replayed = make()
    _replay_all(replayed, log)
    live, said = remembered(machine), remembered(replayed)
    if live != said:
        wrong = [name for name in live if live[name] != said[name]]
        raise InvariantBroken(
            "coordinators-replay",
            f"{replica.partition}: the coordinator on node {node} remembers other {wrong} than its "
            f"log from {log.start_offset} to {log.end_offset} says: {_difference(live, said)}",
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
