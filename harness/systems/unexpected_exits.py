"""Nodes that died though neither a fault nor the harness asked for it: noticed, and written down.

The kernel's memory killer, a crash, or somebody at the keyboard may end a node at any moment of a
run. The cluster has to stand that, so the verdict does; but whoever reads it must know, and what
was lost as evidence must not pass for a promise that was kept.
"""

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from harness.systems.exit_reason import last_words
from harness.targets.base import TargetError

log = logging.getLogger(__name__)

LOOK_NS: Final = 1_000_000_000
"""How often the target is asked, at most."""


class Nodes(Protocol):
    """What is asked of the target."""

    def take_deaths(self) -> Sequence[tuple[int, int | None]]:
        """See `harness.targets.base.Target`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """One end of one node's process. exit_code: negative, by that signal; None: nobody knows.
    phase, at_ns, faults: when it was noticed, and what was in force then."""

    node: int
    exit_code: int | None
    phase: str
    at_ns: int
    faults: tuple[str, ...] = ()
    said: str = ""
    """The node's last line, where it ended with an exit code."""

    @property
    def text(self) -> str:
        """For people."""
        told = f"node {self.node} died by itself in phase {self.phase}, {how_ended(self.exit_code)}"
        told += f", seen at {self.at_ns / 1e9:.1f} s"
        if self.faults:
            told += f", while in force: {', '.join(self.faults)}"
        return f"{told}: {self.said}" if self.said else told

    def as_json(self) -> dict[str, Any]:
        """As run.json has it."""
        return {**asdict(self), "text": self.text}


def how_ended(exit_code: int | None) -> str:
    """An exit code in words."""
    if exit_code is None:
        return "how is not known"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    name = f"signal {-exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-exit_code).name
    whose = ", which the kernel sends when memory runs out" if name == "SIGKILL" else ""
    return f"by {name}{whose}"


@dataclass(slots=True, kw_only=True)
class Deaths:
    """Those of one run. now_ns: the run's time; log_of: where a node writes what it says."""

    nodes: Nodes
    now_ns: Callable[[], int]
    log_of: Callable[[int], Path]
    found: list[Death] = field(default_factory=list)
    _looked_ns: int = -LOOK_NS

    def due(self) -> bool:
        """Whether the last look is long enough ago."""
        return self.now_ns() - self._looked_ns >= LOOK_NS

    def look(self, phase: str, faults: Sequence[str] = ()) -> list[Death]:
        """Those that are news."""
        self._looked_ns = self.now_ns()
        try:
            taken = self.nodes.take_deaths()
        except (TargetError, OSError) as error:
            log.warning("whether nodes died is not known: %s", error)
            return []
        news = [
            Death(
                node=node,
                exit_code=code,
                phase=phase,
                at_ns=self._looked_ns,
                faults=tuple(faults),
                said=self._said(node) if code is not None and code >= 0 else "",
            )
            for node, code in taken
        ]
        self.found += news
        return news

    def _said(self, node: int) -> str:
        with suppress(TargetError, OSError):
            return last_words(self.log_of(node))
        return ""
