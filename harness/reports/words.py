"""Numbers and verdicts in words: one way to write each, on the page, on the terminal and in serve.

The sentence under the verdict says what was found, where, and what the contract says about it. It
is made from verdict.json alone. `checkers.contract.headline` has the words for whether the contract
was kept, and for the acknowledged writes that were lost.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkers.contract import headline, program
from checkers.detectors import plugged

if TYPE_CHECKING:
    from checkers.detectors.detector import Words

NOTHING = "\N{EN DASH}"
OUTCOMES = ("VALID", "INVALID", "UNKNOWN")
INFO = "info: no answer arrived, so the write may or may not have happened"
"""The one explanation of this outcome, for page, terminal and serve."""

MEANINGS: Mapping[str, str] = {
    "lost-write": "A send was acknowledged, but no final read has its value, although the final "
    "reads are complete.",
    "unseen": "A send was acknowledged and its value was not read, but the final reads ended too "
    "early to tell whether it is lost.",
    "duplicate": "The log has one value at two or more offsets.",
    "inconsistent-offset": "One offset has two values: at different times, for different readers, "
    "or not the value that was acknowledged.",
    "reordered-send": "A producer sent two values to a partition, and the later one has the lower "
    "offset.",
    "poll-skip": "A consumer skipped offsets that have records.",
    "nonmonotonic-poll": "A consumer's position went back without a seek.",
    "truncated-read": "A consumer read a record that the final log does not have at that offset.",
    "phantom": "A record was read that no client sent, or with a wrong checksum: corruption.",
    "aborted-read": "A value was read although its send had definitely failed, or while its "
    "transaction was open.",
    "torn-transaction": "The log has some records of a transaction and lacks others.",
    "false-abort": "A client was told that a transaction is not committed, but the log has all "
    "of its records.",
    "zombie-write": "A record was stored although its producer had been fenced before it sent the "
    "record.",
    "uncopied": "A group committed an offset above a record, but did not copy the record.",
    "copied-twice": "The log has two copies of one record by one group.",
    "copied-out-of-order": "A group copied two records of a partition in the other order.",
    "lost-output": "An input of the tested program has no output, although a later input of its "
    "partition has one.",
    "duplicated-output": "An input of the tested program has more than one output.",
    "reordered-output": "The output of an input stands behind that of a later input with the same "
    "key.",
    "torn-output": "The output has a part of an id.",
    "unknown-output": "The output names an input that was never sent, or none at all.",
    "late-output": "An input of the tested program had no output when the program's time was over, "
    "and no later input of its partition had one.",
    "lost-commit": "A group's position is below an offset whose commit had been acknowledged.",
    "stale-commit": "A commit was acknowledged although another member had been assigned the "
    "partition in a later generation.",
    "phantom-commit": "A coordinator has an offset of a group that nobody committed, or whose "
    "commit was refused.",
    "hanging-transaction": "The final read of committed records stopped below the high watermark, "
    "although no transaction can be open any more.",
    "skipped-record": "A group committed an offset above a record that none of its members got.",
    "delivered-again": "A group got a record again after its partition had been assigned again.",
    "two-owners": "Two members of a group owned a partition at the same time.",
    "lost-key": "The last acknowledged record of a key is not in the compacted topic, nor is a "
    "later one.",
    "resurrected-key": "A key of a compacted topic was deleted, and has an older value again.",
    "missing-key": "Two passes over a compacted topic were given neither a record that had been "
    "acknowledged before, nor a later one of its key.",
    "reverted-key": "A pass over a compacted topic was given a record, and later ones neither it "
    "nor a later one of its key.",
    "watermark-regression": "The log end that clients see went back.",
    "divergent-replicas": "Two replicas have different bytes below the high watermark, after the "
    "cluster was left alone to settle.",
    "unequal-ends": "Replicas end at different offsets, at or above the high watermark.",
    "unavailable": "The longest time without an acknowledged send in a partition while clients "
    "tried to send.",
    "recovery": "The time from a fault's start or heal to the next acknowledged send.",
    "stuck": "Every fault was healed, but a client or a partition made no progress afterwards.",
    "reordered-ack": "A send began after another one was acknowledged, but has a lower offset.",
    "uncommitted-read": "A record at or beyond the log end reported later had been read, or "
    "acknowledged with acks=all.",
    "stale-read": "A poll missed a committed record. The time says how long it had been committed.",
    "two-leaders": "Two brokers led a partition, or the quorum, in one epoch.",
    "isr-broken": "The controllers elected a replica that was fenced or not in sync, or added one "
    "to the in-sync replicas.",
    "metadata-rollback": "A committed record of the metadata log is gone.",
    "contradicted-evidence": "A broker answered something about leader epochs or in-sync replicas "
    "that the logs, the metadata log or another answer contradict.",
    "refused-head": "A broker refused a producer's next batch in line as out of order.",
    "unrecorded": "A value was read. Its send was in flight when the record of it ended.",
}

_FOUND: Mapping[str, tuple[str, str]] = {
    "lost-write": ("lost {n} acknowledged write", "lost {n} acknowledged writes"),
    "duplicate": ("stored {n} value twice", "stored {n} values twice"),
    "inconsistent-offset": ("has {n} offset with two values", "has {n} offsets with two values"),
    "reordered-send": ("reordered {n} send", "reordered {n} sends"),
    "truncated-read": (
        "discarded {n} record that a consumer had read",
        "discarded {n} records that consumers had read",
    ),
    "phantom": ("delivered {n} record that no client sent",
        "delivered {n} records that no client sent"),
    "aborted-read": (
        "delivered {n} value that was not committed",
        "delivered {n} values that were not committed",
    ),
    "torn-transaction": ("tore {n} transaction", "tore {n} transactions"),
    "false-abort": (
        "committed {n} transaction that it had called aborted",
        "committed {n} transactions that it had called aborted",
    ),
    "zombie-write": (
        "stored {n} record of a fenced producer", "stored {n} records of fenced producers",
    ),
    "lost-commit": ("lost {n} committed offset", "lost {n} committed offsets"),
    "stale-commit": (
        "accepted {n} commit of an old generation", "accepted {n} commits of old generations",
    ),
    "phantom-commit": (
        "told {n} offset that nobody had committed", "told {n} offsets that nobody had committed",
    ),
    "lost-key": (
        "lost the last record of {n} key", "lost the last records of {n} keys",
    ),
    "resurrected-key": ("brought back {n} deleted key", "brought back {n} deleted keys"),
    "missing-key": (
        "withheld the last record of {n} key from readers",
        "withheld the last records of {n} keys from readers",
    ),
    "reverted-key": ("took {n} key back to an older value", "took {n} keys back to older values"),
    "hanging-transaction": (
        "left a transaction open in {n} partition", "left a transaction open in {n} partitions",
    ),
    "skipped-record": (
        "skipped {n} record of a group", "skipped {n} records of a group",
    ),
    "delivered-again": (
        "delivered {n} committed record again", "delivered {n} committed records again",
    ),
    "two-owners": (
        "gave {n} partition to two members at once", "gave {n} partitions to two members at once",
    ),
    "contradicted-evidence": (
        "gave {n} answer that other evidence contradicts",
        "gave {n} answers that other evidence contradicts",
    ),
    "divergent-replicas": (
        "ended with {n} difference between replicas", "ended with {n} differences between replicas",
    ),
}  # fmt: skip

PROMISE_COUNTS: Mapping[str, str] = {
    "skipped": "skipped",
    "twice": "twice",
    "torn": "torn",
    "aborted": "aborted, read",
}
"""Columns of the promises in verdict.json, with their headings."""

_JUDGEMENTS = {"forbidden": 0, "unknown": 1, "permitted": 2, "informational": 3}
_KINDS = tuple(MEANINGS)


def meaning(kind: str) -> str:
    """Return what an anomaly is; empty for an unknown kind."""
    if kind in MEANINGS:
        return MEANINGS[kind]
    found = _of_others(kind)
    return found.meaning if found is not None else ""


def _of_others(kind: str) -> "Words | None":
    """Return the words for a kind that a detector of another package finds."""
    if not plugged.installed():
        return None
    from checkers.detectors.registry import words_of_others  # importing all detectors is slow

    return words_of_others().get(kind)


def control_plane(plan: Mapping[str, Any]) -> str:
    """Return who elected the leaders, by a plan as JSON; empty for a cluster of others."""
    if plan.get("control_plane") == "zookeeper":
        count = plan.get("zookeepers")
        return f"ZooKeeper, {count} node{'' if count == 1 else 's'}"
    return "metadata quorum" if plan.get("system") in ("nodes", "kafka") else ""


def number(value: Any) -> str:
    """Return a number with separators; a dash for None."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:,}" if isinstance(value, int) else str(value)


def milliseconds(value: Any) -> str:
    """Return a latency in ms with three significant digits; a dash for None."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time in seconds; a dash for None."""
    return NOTHING if value is None else f"{value:,.{digits}f} s"


def of_promise(promise: Mapping[str, Any], cause: Mapping[str, Any]) -> str:
    """Return one cause of a promise (a row of verdict.json) as a line."""
    what = f"{promise['promise']}: {number(cause['count'])} {cause['kind']} {cause['judgement']}"
    return f"{what}: {cause['cause']}" if cause["cause"] else what


def staleness(topic: Mapping[str, Any]) -> str:
    """Return how many polls of a topic (a row of verdict.json) were stale, and by how much; empty
    when none was."""
    polls = topic.get("stale_polls")
    if not isinstance(polls, int) or not polls:
        return ""
    lags = {name: milliseconds(topic.get(f"stale_{name}_ms")) for name in ("p50", "p99", "max")}
    if polls == 1:
        return f"1 stale poll, {lags['max']} ms behind"
    return (
        f"{number(polls)} stale polls, behind by {lags['p50']} ms (p50), {lags['p99']} ms (p99), "
        f"{lags['max']} ms (maximum)"
    )


def acks_label(acks: Any) -> str:
    """Return a label such as acks=all; empty for None."""
    if acks is None:
        return ""
    return f"acks={'all' if acks in (-1, 'all') else acks}"


def acks_class(acks: Any) -> str:
    """Return the CSS class with the colour of an acks mode."""
    return {"0": "a0", "1": "a1", "-1": "aall", "all": "aall"}.get(str(acks), "aother")


def judgement_order(judgement: str) -> int:
    """Return the place of a judgement, the gravest first."""
    return _JUDGEMENTS.get(judgement, len(_JUDGEMENTS))


def kind_order(kind: str) -> int:
    """Return the place of a kind of anomaly, the gravest first, unknown kinds last."""
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def outcome(verdict: Mapping[str, Any]) -> str:
    """Return VALID, INVALID or UNKNOWN. A run that was not judged is UNKNOWN."""
    answer = str(verdict.get("verdict"))
    return answer if answer in OUTCOMES else "UNKNOWN"


def why(verdict: Mapping[str, Any]) -> str:
    """Return one sentence: the reason for the verdict."""
    if not verdict:
        return "This run has not been judged: what happened to its writes is not known."
    found = headline.of(verdict)
    expected = "".join(f" Expectation failed: {each}." for each in found.unmet)
    expected += "".join(f" Expectation not decided: {each}." for each in found.undecided)
    return _why(verdict, found) + expected


def _why(verdict: Mapping[str, Any], found: headline.Headline) -> str:
    match outcome(verdict):
        case "INVALID":
            return _why_invalid(verdict)
        case "VALID":
            reason = _why_valid(verdict.get("topics") or (), found)
            reason += f" {found.kept[0].upper()}{found.kept[1:]}." if found.kept else ""
            return reason + _repeated(verdict.get("anomalies") or ())
        case _:
            reasons = verdict.get("reasons") or ["the verdict names no reason"]
            return (
                "No violation was found, but the record is not complete enough for a verdict: "
                f"{reasons[0]}."
            )


def _why_invalid(verdict: Mapping[str, Any]) -> str:
    anomalies = verdict.get("anomalies") or ()
    others = [each for each in anomalies if each.get("kind") not in program.FOUND]
    if text := program.broken(anomalies):
        also = any(each.get("judgement") == "forbidden" for each in others)
        rest = f" Also: {_why_invalid({**verdict, 'anomalies': others})}" if also else ""
        return f"{text[0].upper()}{text[1:]}.{rest}"
    found: dict[tuple[str, Any], int] = {}
    rules: dict[tuple[str, Any], str] = {}
    for anomaly in verdict.get("anomalies") or ():
        if anomaly.get("judgement") == "forbidden":
            key = (str(anomaly.get("kind")), anomaly.get("acks"))
            found[key] = found.get(key, 0) + int(anomaly.get("count") or 0)
            rules.setdefault(key, _reason_of(str(anomaly.get("rule") or "")))
    if not found:
        reasons = verdict.get("reasons") or ["the verdict names no reason"]
        return f"A violation was found: {reasons[0]}."
    order = sorted(found, key=lambda key: (kind_order(key[0]), -found[key]))
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


def main_cause(verdict: Mapping[str, Any]) -> str:
    """Return the recorded cause of the gravest violation; empty when there is none."""
    found = [
        anomaly for anomaly in verdict.get("anomalies") or ()
        if anomaly.get("judgement") == "forbidden"
    ]  # fmt: skip
    found.sort(key=lambda a: (kind_order(str(a.get("kind"))), -int(a.get("count") or 0)))
    if not found or found[0].get("kind") in program.FOUND:  # the sentence has it already
        return ""
    return str(found[0].get("cause") or "").rstrip(".")


def _finding(kind: str, acks: Any, count: int) -> str:
    one, many = _found(kind)
    subject = acks_label(acks) or "the cluster"
    return f"{subject} {(one if count == 1 else many).format(n=number(count))}"


def _found(kind: str) -> tuple[str, str]:
    if kind in _FOUND:
        return _FOUND[kind]
    words = _of_others(kind)
    if words is not None:
        return words.one, words.several
    return f"shows {{n}} {kind}", f"shows {{n}} times {kind}"


def _reason_of(rule: str) -> str:
    """Return the reason in the text of a contract rule."""
    return rule.split(" forbidden: ", 1)[-1].rstrip(".")


def _why_valid(topics: Sequence[Mapping[str, Any]], found: headline.Headline) -> str:
    """Return what was lost, what permits it, and which acks modes lost nothing."""
    lost: dict[str, int] = {}
    acked: dict[str, int] = {}
    for topic in topics:
        label = acks_label(topic.get("acks"))
        lost[label] = lost.get(label, 0) + int(topic.get("lost") or 0)
        acked[label] = acked.get(label, 0) + int(topic.get("acked") or 0)
    kept = [
        f"{label} kept all {number(acked[label])}"
        for label, count in lost.items()
        if not count and label != acks_label(0)
    ]
    if found.losses:
        rest = f" {listed(kept)} of its acknowledged writes." if kept else ""
        return f"Acknowledged writes were lost: {found.lost_text}.{rest}"
    if not lost:
        return "No violations. All checks that the verdict relies on passed."
    return f"No acknowledged write was lost{f': {listed(kept)}' if kept else ''}."


def _repeated(anomalies: Sequence[Mapping[str, Any]]) -> str:
    """Return the duplicates that idempotent clients made by themselves; empty when there are
    none."""
    found: dict[Any, int] = {}
    for anomaly in anomalies:
        if (anomaly.get("kind"), anomaly.get("aspect")) == ("duplicate", "client-epoch"):
            acks = anomaly.get("acks")
            found[acks] = found.get(acks, 0) + int(anomaly.get("count") or 0)
    return "".join(
        f" {_finding('duplicate', acks, count)}: the client started a new producer epoch by "
        "itself and repeated sends that were in flight. No broker can detect that."
        for acks, count in found.items()
    )


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
