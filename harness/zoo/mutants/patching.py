"""How a mutant replaces a decision, and how that is taken back."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

Undo = Callable[[], None]


def patch(owner: Any, **replacements: Any) -> Undo:
    """Replace attributes of a class or module; returns what puts the old ones back.

    Several patches are undone in the reverse order of their making. Raises TypeError where a
    replacement cannot be called as the broker calls what it replaces: such a mutant would be caught
    for the exception, not for its bug.
    """
    before = {name: vars(owner)[name] for name in replacements}
    for name, replacement in replacements.items():
        if callable(replacement) and callable(before[name]):
            _called_alike(name, before[name], replacement)

    def put(values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(owner, name, value)

    put(replacements)
    return lambda: put(before)


def _called_alike(name: str, sound: Callable[..., Any], broken: Callable[..., Any]) -> None:
    """Whether all parameters of the one are parameters of the other."""
    wanted, taken = (inspect.signature(each).parameters for each in (sound, broken))
    if any(each.kind is each.VAR_POSITIONAL for each in taken.values()):
        return
    if list(wanted) != list(taken):
        raise TypeError(f"{name} is called with {list(wanted)}, its replacement has {list(taken)}")


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
