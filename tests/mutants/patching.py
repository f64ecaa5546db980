"""How a mutant replaces a decision, and how that is taken back."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

Undo = Callable[[], None]


def patch(owner: Any, **replacements: Any) -> Undo:
    """Replace attributes of a class or module; returns what puts the old ones back.

    Several patches are undone in the reverse order of their making.
    """
    before = {name: vars(owner)[name] for name in replacements}

    def put(values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(owner, name, value)

    put(replacements)
    return lambda: put(before)


def together(*undone: Undo) -> Undo:
    """Take back all of these, the last first."""

    def undo() -> None:
        for each in reversed(undone):
            each()

    return undo


def run(apply: Callable[[], Undo]) -> NoReturn:
    """Run the node that the command line names, broken."""
    from nodes.__main__ import main

    apply()
    sys.exit(main())
