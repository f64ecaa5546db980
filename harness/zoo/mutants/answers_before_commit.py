"""A coordinator answers as soon as its records are in its own log.

The record is lost with the coordinator: the client was told of a commit, or of a transaction, that
no later coordinator knows.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.coordinators.shard import Shard

BUG = "a coordinator answers before its records are committed"
SOURCES = ("Redpanda 6019",)
SHOWS = ("lost-commit", "torn-transaction")


def _give_answers(self: Shard) -> None:  # type: ignore[type-arg]
    """Give all answers."""
    while self._uncommitted:
        for token, answer in self._uncommitted.popleft().answers:
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(answer)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Shard, _give_answers=_give_answers)


if __name__ == "__main__":
    run(apply)
