"""A coordinator that lost its leadership still gives answers when the high watermark rises.

It is the high watermark of the new leader's log: the record that the answer is about was removed.
"""

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.server.coordinators.shard import Shard, State

BUG = "a deposed coordinator completes commits by its successor's high watermark"
SOURCES = ("KAFKA-20634",)
SHOWS = ("lost-commit",)


def committed(self: Shard) -> None:  # type: ignore[type-arg]
    """Give answers in any role and epoch."""
    self._give_answers()
    if self.state is not State.CLOSED and self._leads:
        self._catch_up()


def close(self: Shard) -> None:  # type: ignore[type-arg]
    """Go on waiting for the high watermark."""
    if self.state is not State.CLOSED:
        self.state = State.CLOSED
        self.loading.cancel()
        self._cancel_timer()


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(patch(Shard, committed=committed), patch(Shard, close=close))


if __name__ == "__main__":
    run(apply)
