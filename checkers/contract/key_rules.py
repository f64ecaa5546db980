"""Rows of the contract about the keys of compacted topics.

These rows are part of the one table in `contract`. The last record of a key is as safe as any
acknowledged write, so its rows are those of a lost write. A record that was read is as safe as any
record below the high watermark, so its rows are those of a record that was read and is gone.

Sources: the Kafka documentation of log compaction (a consumer sees at least the last state of each
key) and of `delete.retention.ms`; KIP-534.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from checkers.contract.conditions import Condition
from checkers.contract.rules import Judgement, Rule, rule
from checkers.losses import LOST_KEY, MISSING_KEY, RESURRECTED, REVERTED_KEY

EXPIRED: Final = "expired"
"""The aspect of a resurrected key whose tombstone was old enough to be removed."""


def key_rules(lost: Sequence[Rule], read: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rows; `lost` are those of an acknowledged write that is gone, `read` those of a
    record that was read and is gone."""
    return (
        rule(
            Condition(
                "the tombstone was older than delete.retention.ms", lambda c: c.aspect == EXPIRED
            ), RESURRECTED, Judgement.UNKNOWN,
            "a replica that lagged for longer than delete.retention.ms may have missed the "
            "tombstone, and then led; the record does not show what each replica has removed",
            "Kafka: delete.retention.ms; KIP-534",
        ),
        *(replace(row, anomaly=LOST_KEY) for row in lost),
        *(replace(row, anomaly=RESURRECTED) for row in lost),
        *(replace(row, anomaly=MISSING_KEY) for row in lost),
        *(replace(row, anomaly=REVERTED_KEY) for row in read),
    )  # fmt: skip
