"""One instance of an anomaly in sentences: clauses with gaps, which `incident.js` fills in.

The clauses are written one after the other. A clause is left out when the evidence does not fill
one of its gaps. Gaps: value, client, op, where (topic/partition), acks, invoke, complete, lasted,
offset, other_value, other_offset, node, detail.
"""

from collections.abc import Mapping, Sequence

from harness.reports.words import meaning

_HERE = (
    " Here: {where}", ", offset {offset}", " (the other: {other_offset})", ", client {client}",
    ", value {value}", " against {other_value}", ", node {node}", ", at {invoke}", "; {detail}",
    ".",
)  # fmt: skip
"""The clauses of kinds that have none of their own; they follow the meaning of the kind."""

_OWN: Mapping[str, Sequence[str]] = {
    "lost-write": (
        "Client {client} sent {value} to {where} at {invoke}",
        " and got the acknowledgement at {complete} ({acks})",
        ", at offset {offset}",
        ".",
        " The final reads reached the end of {where} and did not find {value}",
        ": offset {offset} has {other_value} now",
        ".",
    ),
    "unseen": (
        "Client {client} sent {value} to {where} at {invoke}",
        " and got the acknowledgement at {complete} ({acks})",
        ", at offset {offset}",
        ". The final reads ended too early to tell whether it is lost.",
    ),
    "duplicate": (
        "Client {client} sent {value} once",
        " at {invoke}",
        ". {where} has it at offset {offset}",
        " and again at offset {other_offset}",
        "; {detail}",
        ".",
    ),
    "lost-output": (
        "Client {client} sent {value} at {invoke}",
        " to the {detail}",
        ". The program went past it and wrote no output for it.",
    ),
    "late-output": (
        "Client {client} sent {value} at {invoke}",
        " to the {detail}",
        ". When the program's time was over, it had no output, nor had any later input of its "
        "partition.",
    ),
    "duplicated-output": (
        "The program wrote the output of {value} at {invoke}",
        " and again at {complete}",
        ", at position {offset} of the output",
        " (before: {other_offset})",
        "; {detail}",
        ".",
    ),
    "reordered-output": (
        "The program wrote the output of {value} at {invoke}",
        ", at position {offset} of the output",
        ", behind that of {other_value}, a later input with the same key",
        "; {detail}",
        ".",
    ),
    "inconsistent-offset": (
        "Offset {offset} of {where} has two values",
        ": {value} and {other_value}",
        "; {detail}",
        ".",
    ),
    "reordered-send": (
        "Client {client} sent {value}",
        " after {other_value}",
        ", but {where} has them in the other order",
        ": {value} at offset {offset}",
        ", {other_value} at {other_offset}",
        ".",
    ),
    "truncated-read": (
        "The consumer {client} read {value}",
        " at offset {offset} of {where}",
        " at {complete}",
        ". The final log has another value or nothing at that offset",
        ": {other_value}",
        ".",
    ),
    "phantom": (
        "A record was read that no client sent, or that is damaged:",
        " at offset {offset} of {where}",
        " by client {client}",
        " at {complete}",
        ": {detail}",
        ".",
    ),
    "aborted-read": (
        "Client {client} got the answer that its send of {value} failed for good",
        ", but {where} has it",
        " at offset {offset}",
        ".",
    ),
    "divergent-replicas": (
        "Below the high watermark, node {node} has other data than the other replicas",
        " at offset {offset} of {where}",
        ": {detail}",
        ".",
    ),
    "unavailable": (
        "{where} acknowledged nothing from {invoke} to {complete} ({lasted}), although clients "
        "tried to send.",
    ),
    "recovery": (
        "{where} needed {lasted} until its next acknowledgement, from {invoke} to {complete}.",
    ),
    "stuck": (
        "Every fault was healed by {invoke}, but nothing made progress afterwards",
        " in {where}",
        " for client {client}",
        "; {detail}",
        ".",
    ),
    "stale-read": (
        "Client {client} polled {where}",
        " at {complete}",
        " and did not get the record at offset {offset}, which had been committed for {lasted}.",
    ),
}  # fmt: skip


def clauses_for(kind: str) -> list[str]:
    """Return the clauses of one kind of anomaly."""
    if kind in _OWN:
        return list(_OWN[kind])
    return [meaning(kind) or f"The detectors name this {kind}.", *_HERE]
