"""How a mutant replaces a decision of the broker, and how that is undone."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

Undo = Callable[[], None]


def patch(owner: Any, **replacements: Any) -> Undo:
    """Replace attributes of a class or module; return a function that restores the old ones.

    Undo several patches in reverse order. Raises TypeError if the broker could not call a
    replacement as it calls the original: such a mutant would be caught for the exception, not for
    its bug.
    """
    before = {name: vars(owner)[name] for name in replacements}
    for name, replacement in replacements.items():
        if callable(replacement) and callable(before[name]):
            _check_signature(name, before[name], replacement)

    def put(values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(owner, name, value)

    put(replacements)
    return lambda: put(before)


def _check_signature(name: str, original: Callable[..., Any], broken: Callable[..., Any]) -> None:
    """Raise TypeError unless both functions have the same parameters."""
    wanted, taken = (inspect.signature(each).parameters for each in (original, broken))
    if any(each.kind is each.VAR_POSITIONAL for each in taken.values()):
        return
    if list(wanted) != list(taken):
        raise TypeError(
            f"{name} has the parameters {list(wanted)}, its replacement has {list(taken)}"
        )


def undo_all(*undone: Undo) -> Undo:
    """Return a function that calls all of these, the last one first."""

    def undo() -> None:
        for each in reversed(undone):
            each()

    return undo


def run(apply: Callable[[], Undo]) -> NoReturn:
    """Run the node of the command line, with the patch."""
    from nodes.__main__ import main

    apply()
    sys.exit(main())
