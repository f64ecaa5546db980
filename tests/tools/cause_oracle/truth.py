"""How a write was lost, from the observations of the run. Pure, and independent of the checkers.

A write that a leader appended is gone from the first leader on after which no leader had its batch.
A write that no leader appended was refused by a node that did not lead any more, or not yet; or it
never arrived: its connection ended with the node's process, was reset, let nothing through, or was
closed by the node because of an earlier request. Faults are known by their effects on nodes in the
simulated world; nothing here searches for events near in time.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.simulation.invariants.partition_history import Batch
from tests.tools.cause_oracle.witness import Handled, Observations, Partition, Posted

CLIENTS: Final = 0
KILLS: Final = (
    "kill", "restart", "crash-loop", "kill-during-recovery", "rolling-restart", "power-loss",
    "disk.lost", "disk.bit-flip", "disk.cut-tail", "disk.misdirected", "disk.stale-copy",
    "failed-fsync", "disk.error", "disk.full", "disk.read-only",
)  # fmt: skip
"""Faults that end, or may end, the processes of the nodes that they are aimed at."""
DISKS: Final = ("disk.error", "disk.full", "disk.read-only", "failed-fsync")
NOT_LED: Final = (
    "not_leader_or_follower",
    "unknown_topic_or_partition",
    "replica_not_available",
    "leader_not_available",
)
"""How a node refuses writes to a partition that it does not lead."""
STORAGE: Final = "kafka_storage_error"
ARRIVING_NS: Final = 1_000_000_000
"""How long before the end of its process a node may have been sent data that it never read: the
bytes are on their way, or unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """How a write was lost; how: in words.

    epochs: the leader epoch that an election began, and later epochs with the same leader.
    elsewhere: the same for another partition. faults: their numbers. If all are empty, the oracle
    does not know.
    """

    how: str
    epochs: frozenset[int] = frozenset()
    elsewhere: frozenset[tuple[Partition, int]] = frozenset()
    faults: frozenset[int] = frozenset()

    @property
    def known(self) -> bool:
        """Whether the oracle knows the cause."""
        return bool(self.epochs or self.elsewhere or self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault as it was recorded."""

    number: int
    fault: str
    nodes: frozenset[int]
    pairs: frozenset[tuple[int, int]]
    began_ns: int
    ended_ns: int

    def lasts(self, at_ns: int) -> bool:
        """Whether it was in force."""
        return self.began_ns <= at_ns <= self.ended_ns


def struck(rows: Iterable[Mapping[str, Any]]) -> list[Struck]:
    """Return the recorded faults that began; a fault without a proven effect may have had one."""
    found = []
    for row in rows:
        in_vain = (row["error"] or "").startswith("not injected")
        if row["started_ns"] is not None and not in_vain:
            targets = json.loads(row["targets"] or "{}")
            pairs = [*targets.get("cuts", ()), *targets.get("links", ())]
            healed_ns = row["healed_ns"]
            found.append(
                Struck(
                    number=row["fault_id"],
                    fault=row["fault"],
                    nodes=frozenset(targets.get("nodes", ())),
                    pairs=frozenset((pair[0], pair[1]) for pair in pairs),
                    began_ns=row["started_ns"],
                    ended_ns=1 << 62 if healed_ns is None else healed_ns,
                )
            )
    return found


class Oracle:
    """Knows how each write was lost."""

    def __init__(self, seen: Observations, faults: Sequence[Struck]) -> None:
        self._seen = seen
        self._faults = faults
        self._posts: dict[Partition, dict[int, list[Posted]]] = {}
        self._handled: dict[Partition, dict[int, list[Handled]]] = {}
        self._on_socket: dict[int, list[tuple[Partition, Posted]]] = {}
        for place, posts in seen.posted.items():
            for post in posts:
                self._on_socket.setdefault(post.socket, []).append((place, post))
                for value in post.values:
                    self._posts.setdefault(place, {}).setdefault(value, []).append(post)
        for place, decided in seen.handled.items():
            for each in decided:
                for value in each.values:
                    self._handled.setdefault(place, {}).setdefault(value, []).append(each)

    def of(self, place: Partition, value: int, offset: int | None) -> Truth:
        """Return how an acknowledged value was lost. offset: its acknowledged offset, if any."""
        decided = self._handled.get(place, {}).get(value, [])
        appended = [each for each in decided if each.error == "none"]
        if offset is not None:
            at = [each for each in appended if _offset_of(each, value) == offset]
            appended = at or appended
        if appended:
            return self._removed(place, appended[-1], value)
        if decided:
            return self._refused(place, decided[-1], self._post_of(place, decided[-1], value))
        posts = self._posts.get(place, {}).get(value, [])
        if not posts:
            return Truth(how="its client never sent it")
        return self._never_arrived(place, posts[-1])

    def _removed(self, place: Partition, appended: Handled, value: int) -> Truth:
        """Find the first epoch after which no leader had the batch."""
        assert appended.epoch is not None
        offset = _offset_of(appended, value)
        later = sorted(epoch for epoch in self._seen.led[place] if epoch > appended.epoch)
        lacking = None
        for epoch in reversed(later):
            if _holds(self._seen.led[place][epoch].last, appended.epoch, offset):
                break
            lacking = epoch
        if lacking is None:
            return Truth(how=f"node {appended.node} appended it, and whoever led later had it")
        led = self._seen.led[place][lacking]
        return Truth(
            how=f"node {appended.node} appended it at {offset} in epoch {appended.epoch}; node "
            f"{led.node} led without it from {led.at_ns / 1e9:.3f} s on in epoch {lacking}",
            epochs=self._leadership_term(place, lacking),
        )

    def _post_of(self, place: Partition, handled: Handled, value: int) -> Posted | None:
        posts = self._posts.get(place, {}).get(value, [])
        mine = [p for p in posts if p.node == handled.node and p.at_ns <= handled.at_ns]
        return mine[-1] if mine else None

    def _refused(self, place: Partition, handled: Handled, post: Posted | None) -> Truth:
        how = f"node {handled.node} refused it at {handled.at_ns / 1e9:.3f} s: {handled.error}"
        if handled.error in NOT_LED and post is not None:
            if handled.epoch is not None and handled.epoch < post.epoch:
                how += f", not knowing yet of epoch {post.epoch}, in which it leads"
                return Truth(how=how, epochs=self._leadership_term(place, post.epoch))
            how += f", leading no more in epoch {post.epoch}"
            ended = self._ended_by(place, handled, post.epoch)
            return Truth(how=how, epochs=ended, faults=self._ending(handled))
        if handled.error == STORAGE:
            mine = [f for f in self._faults if f.fault in DISKS and handled.node in f.nodes]
            before = frozenset(f.number for f in mine if f.began_ns <= handled.at_ns)
            return Truth(how=how, faults=before)
        return Truth(how=how)

    def _ended_by(self, place: Partition, handled: Handled, believed: int) -> frozenset[int]:
        """Return the epochs of the next leader after the last term of the node that refuses."""
        led = self._seen.led[place].values()
        mine = [e.epoch for e in led if e.node == handled.node and e.at_ns <= handled.at_ns]
        later = [e.epoch for e in led if e.epoch > max([*mine, believed])]
        return self._leadership_term(place, min(later)) if later else frozenset()

    def _leadership_term(self, place: Partition, epoch: int) -> frozenset[int]:
        """Return the epoch, and the epochs right before it with the same leader: the leader may
        have learned only of the last one."""
        elected = self._seen.elected.get(place, {})
        first = epoch
        while first > 0 and elected.get(first - 1, elected.get(epoch)) == elected.get(epoch):
            first -= 1
        return frozenset(range(first, epoch + 1))

    def _ending(self, handled: Handled) -> frozenset[int]:
        """Return the faults that were stopping the process of a node that therefore refuses."""
        return frozenset(
            f.number
            for f in self._faults
            if f.fault in KILLS and handled.node in f.nodes and f.lasts(handled.at_ns)
        )

    # -- what never arrived

    def _never_arrived(self, place: Partition, post: Posted) -> Truth:
        """Find why data that a connection accepted never reached a decision."""
        refused = self._refused_before(post)
        if refused is not None:
            where, handled, earlier = refused
            truth = self._refused(where, handled, earlier)
            how = f"its connection was closed over an earlier request: {truth.how}"
            if where == place:
                return Truth(how=how, epochs=truth.epochs, faults=truth.faults)
            elsewhere = frozenset((where, epoch) for epoch in truth.epochs)
            own = frozenset[int]()
            if place not in handled.leads:  # it would have refused it, too
                own = self._ended_by(place, handled, post.epoch)
            return Truth(how=how, epochs=own, elsewhere=elsewhere, faults=truth.faults)
        how = f"handed to node {post.node} at {post.at_ns / 1e9:.3f} s"
        if (reset_ns := self._seen.reset.get(post.socket)) is not None:
            return Truth(
                how=f"{how}, the connection was reset at {reset_ns / 1e9:.3f} s",
                faults=self._of_kind(("reset",), post.node, reset_ns),
            )
        held = self._seen.held_up.get(post.socket, ())
        if held and held[-1] >= post.at_ns:
            there = CLIENTS, post.node
            cut = [f for f in self._faults if any(f.lasts(at) for at in held)]
            both = {there, there[::-1]}
            return Truth(
                how=f"{how}, got nothing through at {held[0] / 1e9:.3f} s",
                faults=frozenset(f.number for f in cut if f.pairs & both),
            )
        ended = [at for at in self._seen.ended.get(post.node, ()) if at >= post.at_ns - ARRIVING_NS]
        if ended:
            found = self._of_kind(KILLS, post.node, ended[0])
            how = f"{how}, whose program ended at {ended[0] / 1e9:.3f} s"
            return Truth(how=how, faults=found)
        return Truth(how=f"{how}, and nobody knows why it never arrived")

    def _of_kind(self, kinds: Sequence[str], node: int, at_ns: int) -> frozenset[int]:
        found = (f for f in self._faults if f.fault in kinds and node in f.nodes)
        return frozenset(f.number for f in found if f.lasts(at_ns))

    def _refused_before(self, post: Posted) -> tuple[Partition, Handled, Posted] | None:
        """Return an earlier request on the same connection that the node refused."""
        for place, earlier in self._on_socket.get(post.socket, ()):
            if earlier.before >= post.before:
                continue
            for value in earlier.values[:1]:
                for handled in self._handled.get(place, {}).get(value, ()):
                    if handled.node == post.node and handled.error != "none":
                        return place, handled, earlier
        return None


def _offset_of(handled: Handled, value: int) -> int:
    return handled.base_offset + handled.values.index(value)


def _holds(last: Batch | None, epoch: int, offset: int) -> bool:
    """Whether a log that ends with `last` has the batch of that epoch there."""
    batch = last
    while batch is not None and batch.base > offset:
        batch = batch.before
    return batch is not None and batch.epoch == epoch and batch.end > offset
