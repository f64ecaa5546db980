"""Records nodes that exited although neither a fault nor the harness asked for it.

The kernel's out-of-memory killer, a crash or a person may end a node at any moment of a run. The
cluster must survive that, so the verdict stays valid. But a reader of the verdict must know, and
lost evidence must not count as a kept promise.
"""

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from harness.recording.exit_reason import read_exit_reason
from harness.targets.base import TargetError

log = logging.getLogger(__name__)

POLL_NS: Final = 1_000_000_000
"""The target is asked at most once in this time."""


class Nodes(Protocol):
    """The part of a target that is used here."""

    def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
        """See `harness.targets.base.Target`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedExit:
    """One unexpected exit of one node's process."""

    node: int
    exit_code: int | None
    """Negative: the signal that ended it. None: unknown."""
    phase: str
    """The phase in which it was noticed."""
    at_ns: int
    """When it was noticed."""
    faults: tuple[str, ...] = ()
    """The faults in force at that time."""
    reason: str = ""
    """The reason in the node's output, if it ended with an exit code."""

    @property
    def text(self) -> str:
        """One sentence for people."""
        how = describe_exit(self.exit_code)
        text = f"node {self.node} died by itself in phase {self.phase}, {how}"
        text += f", seen at {self.at_ns / 1e9:.1f} s"
        if self.faults:
            text += f", while in force: {', '.join(self.faults)}"
        return f"{text}: {self.reason}" if self.reason else text

    def as_json(self) -> dict[str, Any]:
        """Return the form that run.json has."""
        fields = asdict(self)
        fields["said"] = fields.pop("reason")
        return {**fields, "text": self.text}


def describe_exit(exit_code: int | None) -> str:
    """Return an exit code in words."""
    if exit_code is None:
        return "exit code unknown"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    name = f"signal {-exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-exit_code).name
    hint = ", which the kernel sends when memory runs out" if name == "SIGKILL" else ""
    return f"by {name}{hint}"


@dataclass(slots=True, kw_only=True)
class UnexpectedExits:
    """The unexpected exits of one run.

    `now_ns` is the run's time; `log_of` returns the file of a node's output.
    """

    nodes: Nodes
    now_ns: Callable[[], int]
    log_of: Callable[[int], Path]
    found: list[UnexpectedExit] = field(default_factory=list)
    _polled_ns: int = -POLL_NS

    def due(self) -> bool:
        """Return whether the target was asked long enough ago."""
        return self.now_ns() - self._polled_ns >= POLL_NS

    def find_new(self, phase: str, faults: Sequence[str] = ()) -> list[UnexpectedExit]:
        """Ask the target, and return the new exits."""
        self._polled_ns = self.now_ns()
        try:
            exits = self.nodes.take_unexpected_exits()
        except (TargetError, OSError) as error:
            log.warning("it is unknown whether nodes exited: %s", error)
            return []
        new = [
            UnexpectedExit(
                node=node,
                exit_code=code,
                phase=phase,
                at_ns=self._polled_ns,
                faults=tuple(faults),
                reason=self._reason(node) if code is not None and code >= 0 else "",
            )
            for node, code in exits
        ]
        self.found += new
        return new

    def _reason(self, node: int) -> str:
        with suppress(TargetError, OSError):
            return read_exit_reason(self.log_of(node))
        return ""
