"""Nodes that refuse to start because a fault damaged files that they cannot replace.

A node must not vote with a damaged metadata log, and must not guess its last vote or how far its
logs were flushed. It reports the damage and ends with exit code 1. That is correct, so the run
notes it, does not wait for the node and reads none of its files; the verdict rests on the other
nodes. Files that a node can restore from its logs or from a leader are no reason to refuse. A node
that ends for another reason does not count as refused.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from harness.recording.exit_reason import read_exit_reason
from nemesis.record import FaultRecord

NEEDED: Final = frozenset({"metadata-log", "vote", "snapshot", "checkpoint"})
"""The kinds of files of which no other copy exists."""
REFUSED: Final = 1
"""The exit code of a node that refuses to start."""


class Nodes(Protocol):
    """The part of a target that is used here."""

    def is_running(self, node: int) -> bool:
        """Return whether the node's process exists."""
        ...

    def exit_code(self, node: int) -> int | None:
        """Return the exit code of the node's process; None while it runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedStart:
    """One node that refused to start, and the fault that damaged its files."""

    node: int
    fault_id: int
    label: str
    """The fault's label."""
    reason: str
    """The node's last line of output."""

    @property
    def text(self) -> str:
        """One sentence for people."""
        fault = f"fault {self.fault_id}, {self.label}"
        return f"node {self.node} refused its damaged files ({fault}): {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the form that run.json has."""
        fields = asdict(self)
        fields["said"] = fields.pop("reason")
        return {**fields, "text": self.text}


class RefusedStarts:
    """Finds the nodes that refuse to start. `log_of` returns the file of a node's output."""

    def __init__(self, nodes: Nodes, log_of: Callable[[int], Path]) -> None:
        self._nodes = nodes
        self._log_of = log_of
        self._damaged: dict[int, FaultRecord] = {}
        self._found: dict[int, RefusedStart] = {}

    @property
    def found(self) -> list[RefusedStart]:
        """All refused starts so far, in the order of the nodes."""
        return [self._found[node] for node in sorted(self._found)]

    def note(self, record: FaultRecord) -> None:
        """Note the record of a fault that is over."""
        if record.injection is None or record.effective_ns is None:
            return
        if dict(record.injection.details).get("file") in NEEDED:
            self._damaged |= dict.fromkeys(record.injection.nodes, record)

    def find_new(self) -> list[RefusedStart]:
        """Return the new refused starts. Call it only when everything is healed, because faults
        keep nodes down."""
        new = [
            RefusedStart(
                node=node,
                fault_id=record.event.id,
                label=record.label,
                reason=self.last_line(node) or "it did not say why",
            )
            for node, record in sorted(self._damaged.items())
            if node not in self._found
            and not self._nodes.is_running(node)
            and self._nodes.exit_code(node) == REFUSED
        ]
        self._found |= {each.node: each for each in new}
        return new

    def last_line(self, node: int) -> str:
        """Return the reason that a node's output gives for its end; empty when there is none."""
        return read_exit_reason(self._log_of(node))
