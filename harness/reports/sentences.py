"""What went wrong, in sentences with gaps: `incident.js` fills in one instance of an anomaly.

A telling is a list of clauses, written one after the other. A clause with a gap that the evidence
does not fill is left out. Gaps: value, client, op, where (topic/partition), acks, invoke, complete,
lasted, offset, other_value, other_offset, node, detail.
"""

from collections.abc import Mapping, Sequence

from harness.reports.words import MEANINGS

_HERE = (
    " Here: {where}", ", offset {offset}", " (the other: {other_offset})", ", client {client}",
    ", value {value}", " against {other_value}", ", node {node}", ", at {invoke}", "; {detail}",
    ".",
)  # fmt: skip
"""How an anomaly without a telling of its own is told, after what its name means."""

_OWN: Mapping[str, Sequence[str]] = {
    "lost-write": (
        "Client {client} sent {value} to {where} at {invoke}",
        " and was told at {complete} ({acks}) that it is written",
        ", at offset {offset}",
        ".",
        " The final reads got to the end of {where}, and {value} is nowhere in them",
        ": offset {offset} holds {other_value} now",
        ".",
    ),
    "unseen": (
        "Client {client} sent {value} to {where} at {invoke}",
        " and was told at {complete} ({acks}) that it is written",
        ", at offset {offset}",
        ". The final reads did not get far enough to tell whether it is lost.",
    ),
    "duplicate": (
        "{value}, which client {client} sent once",
        " at {invoke},",
        " lies in {where} at offset {offset}",
        " and again at offset {other_offset}",
        "; {detail}",
        ".",
    ),
    "inconsistent-offset": (
        "Offset {offset} of {where} holds two values",
        ": {value} and {other_value}",
        "; {detail}",
        ".",
    ),
    "reordered-send": (
        "Client {client} sent {value}",
        " after {other_value}",
        ", and yet it lies before it in {where}",
        ": at offset {offset}",
        ", the other at {other_offset}",
        ".",
    ),
    "truncated-read": (
        "A consumer, client {client}, was given {value}",
        " at offset {offset} of {where}",
        " at {complete}",
        "; in the end that offset holds something else or nothing",
        ": {other_value}",
        ".",
    ),
    "phantom": (
        "A record that nobody sent, or that is damaged, was read",
        " at offset {offset} of {where}",
        " by client {client}",
        " at {complete}",
        ": {detail}",
        ".",
    ),
    "aborted-read": (
        "Client {client} was told that its send of {value} had failed and never happens",
        "; yet it lies in {where}",
        " at offset {offset}",
        ".",
    ),
    "divergent-replicas": (
        "Below the high watermark, node {node} holds something else than its peers",
        " at offset {offset} of {where}",
        ": {detail}",
        ".",
    ),
    "unavailable": (
        "{where} acknowledged nothing from {invoke} to {complete}, for {lasted}, although sends "
        "were tried.",
    ),
    "recovery": (
        "It took {lasted} until {where} acknowledged again: from {invoke} to {complete}.",
    ),
    "stuck": (
        "Everything was healed by {invoke}, and from then on nothing got on",
        " in {where}",
        " for client {client}",
        "; {detail}",
        ".",
    ),
    "stale-read": (
        "When client {client} polled {where}",
        " at {complete}",
        ", the record at offset {offset}, committed for {lasted}, was not yet given to it.",
    ),
}  # fmt: skip


def telling(kind: str) -> list[str]:
    """The clauses for one kind of anomaly."""
    if kind in _OWN:
        return list(_OWN[kind])
    meaning = MEANINGS.get(kind, f"The detectors call this {kind}.")
    return [meaning, *_HERE]
