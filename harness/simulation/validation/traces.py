"""A trace, and what a model checker says of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One trace. `specification` is the TLA+ module that reads it; `constants` are the constants of
    that module by name, and only traces with equal ones are checked together; `entries` are tuples.
    """

    name: str
    specification: str
    constants: tuple[tuple[str, Any], ...]
    entries: tuple[tuple[Any, ...], ...]


class Judgement(NamedTuple):
    """Whether a trace is a behaviour of the specification. `reason` is empty if it is."""

    trace: Trace
    reason: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the specification allows the trace."""
        return not self.reason
