"""Numbers and verdicts in words: one way to write each of them, everywhere in the report.

The sentence under the verdict says what was found, where, and what the contract says of it. It is
made from verdict.json alone and takes no part in judging. `checkers.contract.headline` has the
words for whether the contract was kept, and for the acknowledged writes that were lost.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.contract import headline

NOTHING = "\N{EN DASH}"
OUTCOMES = ("VALID", "INVALID", "UNKNOWN")

MEANINGS: Mapping[str, str] = {
    "lost-write": "A send was acknowledged, and its value is in no final read, although the final "
    "reads are complete.",
    "unseen": "A send was acknowledged and its value not read, but the final reads did not get far "
    "enough to tell whether it is lost.",
    "duplicate": "One value lies at two or more offsets of the log.",
    "inconsistent-offset": "One offset holds two values: over time, between readers, or other than "
    "was acknowledged.",
    "reordered-send": "Of one producer's sends to one partition, a later one has the lower offset.",
    "poll-skip": "A consumer's position jumped over offsets that do hold records.",
    "nonmonotonic-poll": "A consumer's position went back although nobody told it to.",
    "truncated-read": "A consumer was given a record that the log does not hold at that offset in "
    "the end.",
    "phantom": "A record was read that nobody sent, or whose checksum does not match: corruption.",
    "aborted-read": "A value was read whose send had definitely failed.",
    "watermark-regression": "The end offset that clients see went back.",
    "divergent-replicas": "Two replicas differ below the high watermark after settling, byte for "
    "byte.",
    "unequal-ends": "Replicas end at different offsets, at or above the high watermark.",
    "unavailable": "The longest time that a partition went without an acknowledged send while "
    "sends were tried.",
    "recovery": "The time from a fault's start or heal to the next acknowledged send.",
    "stuck": "Everything was healed, and a client or a partition got nowhere from then on.",
    "reordered-ack": "A send that began after another was acknowledged lies before it.",
    "uncommitted-read": "A consumer was given a record at or beyond the end that was told later.",
    "stale-read": "The longest time that a committed record had lain behind the end of a poll.",
    "two-leaders": "Two brokers led a partition, or the quorum, in one epoch.",
    "isr-broken": "The controllers elected, or took in, a replica that was not in sync or fenced.",
    "metadata-rollback": "What the quorum had committed is in its log no more.",
    "refused-head": "A broker refused a producer's next batch in line as out of order.",
    "unrecorded": "A value was read whose send was in flight when its recorder was cut off.",
}

_FOUND: Mapping[str, tuple[str, str]] = {
    "lost-write": ("lost {n} acknowledged write", "lost {n} acknowledged writes"),
    "duplicate": ("stored {n} value twice", "stored {n} values twice"),
    "inconsistent-offset": ("has {n} offset with two values", "has {n} offsets with two values"),
    "reordered-send": ("reordered {n} send", "reordered {n} sends"),
    "truncated-read": (
        "cut {n} record that a consumer had read", "cut {n} records that consumers had read",
    ),
    "phantom": ("delivered {n} record nobody sent", "delivered {n} records nobody sent"),
    "aborted-read": (
        "delivered {n} value whose send had failed", "delivered {n} values whose sends had failed",
    ),
    "divergent-replicas": (
        "ended with {n} difference between replicas", "ended with {n} differences between replicas",
    ),
}  # fmt: skip

_WEIGHTS = {"forbidden": 0, "unknown": 1, "permitted": 2, "informational": 3}
_GRAVEST = tuple(MEANINGS)


def number(value: Any) -> str:
    """A number with separators; a dash where there is none."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:,}" if isinstance(value, int) else str(value)


def milliseconds(value: Any) -> str:
    """A latency in ms with three significant digits; a dash where there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float | None, digits: int = 3) -> str:
    """A moment or a duration; a dash where there is none."""
    return NOTHING if value is None else f"{value:,.{digits}f} s"


def staleness(topic: Mapping[str, Any]) -> str:
    """A row of verdict.json's topics: how far its consumers' polls were behind; empty where none
    was."""
    polls = topic.get("stale_polls")
    if not isinstance(polls, int) or not polls:
        return ""
    lags = {name: milliseconds(topic.get(f"stale_{name}_ms")) for name in ("p50", "p99", "max")}
    if polls == 1:
        return f"1 stale poll, {lags['max']} ms behind what acks=all had acknowledged"
    spread = f"{lags['p50']} ms in the median, {lags['p99']} ms at p99, {lags['max']} ms at most"
    return f"{number(polls)} stale polls, behind what acks=all had acknowledged: {spread}"


def acks_label(acks: Any) -> str:
    """Such as acks=all; empty for what has no acks."""
    if acks is None:
        return ""
    return f"acks={'all' if acks in (-1, 'all') else acks}"


def acks_class(acks: Any) -> str:
    """The CSS class that carries an acks mode's colour."""
    return {"0": "a0", "1": "a1", "-1": "aall", "all": "aall"}.get(str(acks), "aother")


def weight(judgement: str) -> int:
    """The order of judgements, the gravest first."""
    return _WEIGHTS.get(judgement, len(_WEIGHTS))


def gravity(kind: str) -> int:
    """The order of anomalies, the gravest first; unknown ones last."""
    return _GRAVEST.index(kind) if kind in _GRAVEST else len(_GRAVEST)


def outcome(verdict: Mapping[str, Any]) -> str:
    """VALID, INVALID or UNKNOWN; a run that was not judged is UNKNOWN."""
    said = str(verdict.get("verdict"))
    return said if said in OUTCOMES else "UNKNOWN"


def why(verdict: Mapping[str, Any]) -> str:
    """One sentence: why the verdict is what it is."""
    if not verdict:
        return "This run has not been judged, so it is not known what became of its writes."
    found = headline.of(verdict)
    expected = "".join(f" Expectation failed: {each}." for each in found.unmet)
    expected += "".join(f" Expectation not decided: {each}." for each in found.undecided)
    return _why(verdict, found) + expected


def _why(verdict: Mapping[str, Any], found: headline.Headline) -> str:
    match outcome(verdict):
        case "INVALID":
            return _why_invalid(verdict)
        case "VALID":
            said = _why_valid(verdict.get("topics") or (), found)
            return said + _sent_again(verdict.get("anomalies") or ())
        case _:
            reasons = verdict.get("reasons") or ["the verdict names no reason"]
            return (
                "No violation was found, but the evidence is not enough for a verdict: "
                f"{reasons[0]}."
            )


def _why_invalid(verdict: Mapping[str, Any]) -> str:
    found: dict[tuple[str, Any], int] = {}
    rules: dict[tuple[str, Any], str] = {}
    for anomaly in verdict.get("anomalies") or ():
        if anomaly.get("judgement") == "forbidden":
            key = (str(anomaly.get("kind")), anomaly.get("acks"))
            found[key] = found.get(key, 0) + int(anomaly.get("count") or 0)
            rules.setdefault(key, _reason_of(str(anomaly.get("rule") or "")))
    if not found:
        reasons = verdict.get("reasons") or ["the verdict names no reason"]
        return f"Something forbidden was found: {reasons[0]}."
    order = sorted(found, key=lambda key: (gravity(key[0]), -found[key]))
    first = order[0]
    text = f"{_finding(first[0], first[1], found[first])}, which nothing permits"
    if rules[first]:
        text += f": {rules[first]}"
    if others := order[1:]:
        more = [_finding(kind, acks, found[kind, acks]) for kind, acks in others[:2]]
        text += f". Also: {'; '.join(more)}"
        if len(others) > 2:
            text += f"; and {len(others) - 2} more"
    return f"{text}."


def blamed(verdict: Mapping[str, Any]) -> str:
    """The recorded cause of the gravest forbidden anomaly; empty when there is none."""
    found = [
        anomaly for anomaly in verdict.get("anomalies") or ()
        if anomaly.get("judgement") == "forbidden"
    ]  # fmt: skip
    found.sort(key=lambda a: (gravity(str(a.get("kind"))), -int(a.get("count") or 0)))
    return str(found[0].get("cause") or "") if found else ""


def _finding(kind: str, acks: Any, count: int) -> str:
    one, many = _FOUND.get(kind, (f"shows {{n}} {kind}", f"shows {{n}} times {kind}"))
    who = acks_label(acks) or "the cluster"
    return f"{who} {(one if count == 1 else many).format(n=number(count))}"


def _reason_of(rule: str) -> str:
    """The part of a contract's line that says why."""
    return rule.split(" forbidden: ", 1)[-1].rstrip(".")


def _why_valid(topics: Sequence[Mapping[str, Any]], found: headline.Headline) -> str:
    """What was lost and by what permission, and which acks mode kept everything."""
    lost: dict[str, int] = {}
    acked: dict[str, int] = {}
    for topic in topics:
        label = acks_label(topic.get("acks"))
        lost[label] = lost.get(label, 0) + int(topic.get("lost") or 0)
        acked[label] = acked.get(label, 0) + int(topic.get("acked") or 0)
    kept = [f"{label} kept all {number(acked[label])}" for label, n in lost.items() if not n]
    if found.losses:
        rest = f" {listed(kept)} of its acknowledged writes." if kept else ""
        return f"Lost although acknowledged: {found.lost_text}.{rest}"
    if not lost:
        return "No violations. All checks that the verdict relies on passed."
    every = "Every acknowledged write is still there"
    return f"{every}{f': {listed(kept)}' if kept else ''}."


def _sent_again(anomalies: Sequence[Mapping[str, Any]]) -> str:
    """What clients wrote twice by themselves, although idempotent; empty when nothing."""
    found: dict[Any, int] = {}
    for anomaly in anomalies:
        if (anomaly.get("kind"), anomaly.get("aspect")) == ("duplicate", "client-epoch"):
            acks = anomaly.get("acks")
            found[acks] = found.get(acks, 0) + int(anomaly.get("count") or 0)
    return "".join(
        f" {_finding('duplicate', acks, count)}: its client left its producer epoch by its own "
        "doing and sent again what was in flight, which no broker can know."
        for acks, count in found.items()
    )


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
