"""What the contract says of what `reference` finds, in stories of the healthy run's plan and fault.

Ends go back there long after the last election, whoever leads in the end.

The guarantees in one page of plain Python: acks=0 promises nothing, acks=1 what its leader had and
was not deposed with, acks=all with idempotence everything.
"""

from tests.support.checkers.reference import Row
from tests.support.checkers.reference_cluster import elections
from tests.support.histories.story import Story

FORBIDDEN, PERMITTED, UNKNOWN, INFO = "forbidden", "permitted", "unknown", "informational"
_OF_KIND = {
    "aborted-read": FORBIDDEN,
    "torn-transaction": FORBIDDEN,
    "false-abort": FORBIDDEN,
    "zombie-write": FORBIDDEN,
    "uncopied": INFO,
    "copied-twice": INFO,
    "copied-out-of-order": INFO,
    "lost-commit": UNKNOWN,
    "hanging-transaction": UNKNOWN,
    "skipped-record": INFO,
    "delivered-again": INFO,
    "stale-commit": FORBIDDEN,
    "phantom-commit": FORBIDDEN,
    "phantom": FORBIDDEN,
    "poll-skip": FORBIDDEN,
    "nonmonotonic-poll": FORBIDDEN,
    "truncated-read": FORBIDDEN,
    "reverted-key": FORBIDDEN,
    "reordered-ack": FORBIDDEN,
    "two-leaders": FORBIDDEN,
    "isr-broken": FORBIDDEN,
    "contradicted-evidence": FORBIDDEN,
    "metadata-rollback": FORBIDDEN,
    "divergent-replicas": FORBIDDEN,
    "refused-head": FORBIDDEN,
    "uncommitted-read": FORBIDDEN,
    "watermark-regression": FORBIDDEN,
    "stuck": UNKNOWN,
    "unseen": UNKNOWN,
    "unequal-ends": INFO,
    "stale-read": INFO,
}


def judged(kind: str, aspect: str | None, acks: int) -> str | None:
    """Of an anomaly of a topic of these acks; None where it needs more than that."""
    idempotent = acks == -1 or aspect == "transaction"
    match kind, aspect:
        case ("duplicate", "client-epoch") | ("aborted-read", "read-uncommitted"):
            return PERMITTED
        case (("duplicate" | "reordered-send"), _):
            return FORBIDDEN if idempotent else PERMITTED
        case "delivered-again", "below-commit":
            return UNKNOWN
        case "two-owners", _:
            return FORBIDDEN if aspect else INFO
        case "lost-write", _:
            return {0: PERMITTED, -1: FORBIDDEN}.get(acks)
        case (("lost-key" | "resurrected-key" | "missing-key"), _):
            return UNKNOWN if aspect == "expired" else {-1: FORBIDDEN}.get(acks)
        case "inconsistent-offset", "read":
            return FORBIDDEN
        case "inconsistent-offset", _:
            return FORBIDDEN if idempotent else None
        case _:
            return _OF_KIND.get(kind)


def may_be_lost(story: Story, send: Row) -> bool:
    """Whether an acks=1 write went with a leader that was deposed, and may not have known yet."""
    return any(
        start <= send["offset"] and send["invoke_ns"] <= until_ns
        for start, _, until_ns, _ in elections(story, send["topic"])
    )
