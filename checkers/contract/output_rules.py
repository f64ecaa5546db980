"""Rows of the contract about the output of a tested program, by what the program claims.

These rows are part of the one table in `contract`. The claim is `Settings.processing`, and
`Settings.ordered` for the order of keys.

Sources: the Kafka documentation of delivery semantics.
"""

from typing import Final

from checkers.contract import permissions
from checkers.contract.conditions import ANY, NOT_SETTLED, Condition, otherwise
from checkers.contract.rules import Judgement, Rule, rule
from checkers.history.settings import AT_LEAST_ONCE, AT_MOST_ONCE

_SEMANTICS: Final = "Kafka: message delivery semantics"
_CLAIM: Final = "the program's claim"
_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
_NEEDED_LOST: Final = Condition(
    "the cluster lost acknowledged records, as it may, of a topic that the program depends on",
    lambda c: c.needed_lost,
)


def _left_open(kind: str) -> Rule:
    return rule(
        _NEEDED_LOST, kind, Judgement.UNKNOWN,
        "the program may have done all that it claims; the record does not tell",
        "-",
    )  # fmt: skip


OUTPUT_RULES: tuple[Rule, ...] = (
    rule(
        Condition("the program claims at-most-once", lambda c: c.processing == AT_MOST_ONCE),
        "lost-output", _PERMITTED,
        "an input may be given up when the program ends before it has written the output",
        _SEMANTICS,
        permissions.AT_MOST_ONCE,
    ),
    _left_open("lost-output"),
    rule(
        otherwise("the program claims at-least-once or exactly-once"), "lost-output", _FORBIDDEN,
        "each input has an output",
        _SEMANTICS,
    ),
    rule(
        Condition("the program claims at-least-once", lambda c: c.processing == AT_LEAST_ONCE),
        "duplicated-output", _PERMITTED,
        "an input may be processed again when the program ends before it has committed the offset",
        _SEMANTICS,
        permissions.AT_LEAST_ONCE,
    ),
    _left_open("duplicated-output"),
    rule(
        otherwise("the program claims at-most-once or exactly-once"),
        "duplicated-output", _FORBIDDEN,
        "each input has at most one output",
        _SEMANTICS,
    ),
    rule(
        Condition("the program claims no order", lambda c: not c.ordered),
        "reordered-output", Judgement.INFORMATIONAL,
        "the order of the output is not promised",
        _CLAIM,
    ),
    _left_open("reordered-output"),
    rule(
        otherwise("the program claims the order of keys"), "reordered-output", _FORBIDDEN,
        "inputs of one key come out in their order",
        _CLAIM,
    ),
    rule(
        ANY, "torn-output", _FORBIDDEN,
        "an element of the output is written as a whole, or not at all",
        _CLAIM,
    ),
    rule(
        ANY, "unknown-output", _FORBIDDEN,
        "each element of the output names the input that it was made from",
        _CLAIM,
    ),
    rule(
        NOT_SETTLED, "late-output", Judgement.UNKNOWN,
        "the cluster did not recover, so that perhaps no program could go on",
        "-",
    ),
    _left_open("late-output"),
    rule(
        ANY, "late-output", _FORBIDDEN,
        "the output of all inputs is there within lag_s",
        _CLAIM,
    ),
)  # fmt: skip
