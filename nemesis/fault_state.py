"""The state of faults between their injection, their ticks and their heal.

Fault objects have no state. An injection stores here, under its own tag, what it did to each node
and which nodes it keeps down. A node that several faults keep down stays down until the last of
them releases it. Any thread may call.
"""

import random
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

TAG: Final = "tag"
"""The detail of an injection that names it here."""


def new_tag(rng: random.Random) -> tuple[str, str]:
    """A detail that is unique to one injection, and the same for the same seed and event."""
    return TAG, f"{rng.getrandbits(64):016x}"


class NodeChange(NamedTuple):
    """Something that was done to a node or observed on it."""

    kind: str
    node: int
    at_ms: int
    """Since the injection."""
    evidence: str = ""


class FaultState:
    """The node changes of all injections of a run, and the nodes that they keep down."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._node_changes: dict[str, list[NodeChange]] = {}
        self._kept_down: dict[str, set[int]] = {}

    def add_change(self, tag: str, change: NodeChange) -> None:
        """Store one change."""
        with self._mutex:
            self._node_changes.setdefault(tag, []).append(change)

    def node_changes(self, tag: str) -> Sequence[NodeChange]:
        """The changes stored under the tag, in order."""
        with self._mutex:
            return tuple(self._node_changes.get(tag, ()))

    def keep_down(self, tag: str, node: int) -> None:
        """The injection keeps the node down from now on."""
        with self._mutex:
            self._kept_down.setdefault(tag, set()).add(node)

    def release(self, tag: str, nodes: Sequence[int] | None = None) -> None:
        """The injection no longer keeps these nodes down; without `nodes`, it releases all."""
        with self._mutex:
            kept = self._kept_down.get(tag, set())
            kept.difference_update(tuple(kept) if nodes is None else nodes)

    def is_kept_down(self, node: int) -> bool:
        """Whether any injection keeps the node down."""
        with self._mutex:
            return any(node in nodes for nodes in self._kept_down.values())
