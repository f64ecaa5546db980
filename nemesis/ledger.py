"""What faults in force remember between their injection, their pulses and their heal.

Faults have no state. What they did goes here under the strike's own tag, and so does which nodes
they keep down: a node that several faults keep down stays down until the last of them lets go. Any
thread may call.
"""

import random
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

TAG: Final = "tag"
"""The detail of a strike that names it here."""


def new_tag(rng: random.Random) -> tuple[str, str]:
    """A detail that tells a strike from every other, the same for the same seed and event."""
    return TAG, f"{rng.getrandbits(64):016x}"


class Deed(NamedTuple):
    """What was done to a node, or seen of it."""

    what: str
    node: int
    at_ms: int
    """Since the injection."""
    evidence: str = ""


class Ledger:
    """The deeds and the holds of all strikes of a run."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._deeds: dict[str, list[Deed]] = {}
        self._held: dict[str, set[int]] = {}

    def note(self, tag: str, deed: Deed) -> None:
        """Remember a deed."""
        with self._mutex:
            self._deeds.setdefault(tag, []).append(deed)

    def deeds(self, tag: str) -> Sequence[Deed]:
        """What was noted under the tag, in order."""
        with self._mutex:
            return tuple(self._deeds.get(tag, ()))

    def hold(self, tag: str, node: int) -> None:
        """From now on the strike keeps the node down."""
        with self._mutex:
            self._held.setdefault(tag, set()).add(node)

    def let_go(self, tag: str, nodes: Sequence[int] | None = None) -> None:
        """The strike keeps these nodes down no more; without `nodes`, none at all."""
        with self._mutex:
            held = self._held.get(tag, set())
            held.difference_update(tuple(held) if nodes is None else nodes)

    def held(self, node: int) -> bool:
        """Whether any strike keeps the node down."""
        with self._mutex:
            return any(node in nodes for nodes in self._held.values())
