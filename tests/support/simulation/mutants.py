"""Automatic mutants by what they change, because their numbers move when a module changes."""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.simulation.decisions import mutations


@contextmanager
def mutated(module: str, function: str, before: str, after: str) -> Iterator[None]:
    """Change the broker in this process until the end of the block."""
    wanted = (function, before, after)
    (found,) = [
        each
        for each in mutations.mutations(module)
        if (each.function, each.before, each.after) == wanted
    ]
    undo = mutations.apply(found)
    try:
        yield
    finally:
        undo()
