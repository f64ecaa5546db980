"""Nodes that run no more because a fault damaged files that they cannot do without.

A node must not vote with a damaged metadata log, nor guess whom it voted for or how far its logs
were flushed: it says so, and ends with exit code 1. That is right, so the run says it as well,
waits for the node no longer and reads none of its files; the verdict rests on the others. What a
node can have again from its own logs or from a leader is no reason to refuse, and whoever ends for
another reason is not excused.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from harness.systems.exit_reason import last_words
from nemesis.record import FaultRecord

NEEDED: Final = frozenset({"metadata-log", "vote", "snapshot", "checkpoint"})
"""The kinds of files that are nowhere else."""
REFUSED: Final = 1
"""How a node ends that cannot run."""


class Nodes(Protocol):
    """What is asked of the target."""

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists."""
        ...

    def exit_code(self, node: int) -> int | None:
        """How it ended; None while it runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One node's. label: of the fault that damaged its files; said: the last that it wrote."""

    node: int
    fault_id: int
    label: str
    said: str

    @property
    def text(self) -> str:
        """For people."""
        fault = f"fault {self.fault_id}, {self.label}"
        return f"node {self.node} refused its damaged files ({fault}): {self.said}"

    def as_json(self) -> dict[str, Any]:
        """As run.json has it."""
        return {**asdict(self), "text": self.text}


class Refusals:
    """Which nodes refuse, and for which fault. `log_of`: where a node writes what it says."""

    def __init__(self, nodes: Nodes, log_of: Callable[[int], Path]) -> None:
        self._nodes = nodes
        self._log_of = log_of
        self._damaged: dict[int, FaultRecord] = {}
        self._found: dict[int, Refusal] = {}

    @property
    def found(self) -> list[Refusal]:
        """All that were seen, in the order of their nodes."""
        return [self._found[node] for node in sorted(self._found)]

    def note(self, record: FaultRecord) -> None:
        """What became of a fault."""
        if record.strike is None or record.effective_ns is None:
            return
        if dict(record.strike.details).get("file") in NEEDED:
            self._damaged |= dict.fromkeys(record.strike.nodes, record)

    def look(self) -> list[Refusal]:
        """Those that are news. Only once everything is healed: until then nodes are kept down."""
        news = [
            Refusal(
                node=node,
                fault_id=record.event.id,
                label=record.label,
                said=self.last_line(node) or "it did not say why",
            )
            for node, record in sorted(self._damaged.items())
            if node not in self._found
            and not self._nodes.is_running(node)
            and self._nodes.exit_code(node) == REFUSED
        ]
        self._found |= {each.node: each for each in news}
        return news

    def last_line(self, node: int) -> str:
        """The last that a node said of its end; empty when there is nothing."""
        return last_words(self._log_of(node))
