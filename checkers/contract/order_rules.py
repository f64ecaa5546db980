"""Rows of the contract about values that are in a log twice, or in another order than sent.

These rows are part of the one table in `contract`.

Sources: KIP-98, KIP-360 (idempotent producers), KIP-580 (pauses before retries), KIP-951 (the new
leader in the answer); Kafka's documentation of `enable.idempotence`, `retry.backoff.ms` and
`max.in.flight.requests.per.connection`.
"""

from checkers.causes.producer_epochs import IN_FLIGHT
from checkers.contract import permissions
from checkers.contract.conditions import (
    ANSWERED_AT_ONCE,
    IDEMPOTENCE,
    NO_CAUSE_RECORDABLE,
    OUTLASTED,
    TAKEN_AS_UNKNOWN,
    Condition,
    otherwise,
)
from checkers.contract.rules import Judgement, Rule, rule

_FORBIDDEN, _PERMITTED, _UNKNOWN = Judgement.FORBIDDEN, Judgement.PERMITTED, Judgement.UNKNOWN

_AT_ONCE = Condition(
    "the send was acknowledged sooner than its client repeats a request, and no other leader took "
    "over",
    lambda c: c.aspect == ANSWERED_AT_ONCE,
)


def _at_once_rules(anomaly: str, otherwise_: str) -> tuple[Rule, ...]:
    """The rows for what only a repeated request explains, of a send without one."""
    return (
        rule(
            _AT_ONCE & NO_CAUSE_RECORDABLE, anomaly, _UNKNOWN,
            "the leader may have been replaced, and the client sent the write to the next one at "
            "once; the record cannot show it",
            "KIP-951",
        ),
        rule(
            _AT_ONCE, anomaly, _FORBIDDEN,
            f"the client did not repeat the write, so {otherwise_}",
            "Kafka: retry.backoff.ms; KIP-580",
        ),
    )  # fmt: skip


ORDER_RULES: tuple[Rule, ...] = (
    rule(
        IDEMPOTENCE & Condition(
            "the client began a new producer epoch with the write in flight, because the client "
            "had sent more behind a failed batch (not this write), because another partition had "
            "lost records with permission, or because a leader that may not have known the "
            "producer had accepted this write before the one that it refused",
            lambda c: c.aspect == IN_FLIGHT,
        ), "duplicate", _PERMITTED,
        "sequences identify a repeated batch only within one producer epoch",
        "KIP-98; KIP-360; librdkafka issue 4953",
        permissions.EPOCH_LEFT,
    ),
    rule(
        IDEMPOTENCE & Condition(
            "the send lasted for producer.id.expiration.ms or longer, by the clocks of the "
            "brokers", lambda c: c.aspect == OUTLASTED,
        ), "duplicate", _PERMITTED,
        "the leader may have forgotten the producer before the batch came again, and takes it for "
        "a new one",
        "Kafka: producer.id.expiration.ms; KIP-360; KIP-854",
        permissions.EXPIRED_PRODUCER,
    ),
    rule(
        IDEMPOTENCE & Condition(
            "the client began a new producer epoch because a partition did not know it, and the "
            "leader epochs of that partition are not recorded", lambda c: not c.cause_recorded,
        ), "duplicate", _UNKNOWN,
        "that partition may have lost records with permission; the record cannot show it",
        "KIP-360",
    ),
    rule(
        IDEMPOTENCE, "duplicate", _FORBIDDEN,
        "the broker must recognize a batch that it already has by its sequence",
        "KIP-98",
    ),
    *_at_once_rules("duplicate", "the broker appended one request twice"),
    rule(
        otherwise("enable.idempotence=false"), "duplicate", _PERMITTED,
        "the producer sends a write again when its response is lost",
        "Kafka: enable.idempotence",
        permissions.NOT_IDEMPOTENT,
    ),
    rule(
        IDEMPOTENCE & TAKEN_AS_UNKNOWN, "reordered-send", _PERMITTED,
        "a producer that the leader does not know may begin with any sequence; it then sends the "
        "refused batch again in a new producer epoch",
        "KIP-360",
        permissions.UNKNOWN_PRODUCER,
    ),
    rule(
        IDEMPOTENCE, "reordered-send", _FORBIDDEN,
        "the broker must reject a batch when it lacks the batch before",
        "KIP-98",
    ),
    *_at_once_rules("reordered-send", "the broker appended a later request before this one"),
    rule(
        Condition(
            "enable.idempotence=false, retries, more than one request in flight",
            lambda c: c.max_in_flight > 1,
        ), "reordered-send", _PERMITTED,
        "a later batch may be appended while an earlier batch is retried",
        "Kafka: max.in.flight.requests.per.connection",
        permissions.SEVERAL_IN_FLIGHT,
    ),
    rule(
        otherwise("one request in flight"), "reordered-send", _FORBIDDEN,
        "the producer sends the next batch only after the answer to the last one",
        "Kafka: max.in.flight.requests.per.connection",
    ),
)  # fmt: skip
