"""The order of sends of unknown outcome again, in plain Python: see `reference`."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.support.histories.story import Row, S, Story

_NEVER_NS = 1 << 62
_SLACK_NS = 2 * S
_DAY_MS = 86_400_000


def find_unanswered(story: Story) -> Iterator[tuple[str, str | None, str, int]]:
    """Every send that lies below the one before it, if one of both has no outcome."""
    sends = [r for r in story.history if r["f"] == "send"]
    lines = defaultdict(list)
    for send in sends:
        lines[send["client"], send["topic"], send["partition"]].append(send)
    for (_, topic, partition), mine in lines.items():
        log = _log(story, topic, partition)
        there = sorted((r for r in mine if log[r["value"]]), key=lambda r: r["op"])
        there = [r for r in there if r["type"] == "ok" or _judged(story, r)]
        for number, (first, second) in enumerate(pairwise(there)):
            values = {first["value"], second["value"]}
            if log[second["value"]][0] >= log[first["value"]][0]:
                continue
            if "info" not in (first["type"], second["type"]) or _left(story, first, second):
                continue
            sent = Counter(r["value"] for r in sends)
            if any(sent[value] > 1 or len(log[value]) > 1 for value in values):
                continue
            if first.get("txn") is not None and first.get("txn") == second.get("txn"):
                yield "reordered-send", "transaction", topic, partition
            elif number > 0 and _of_one_epoch(story, there[number - 1], first, second, log):
                yield "reordered-send", None, topic, partition


def _log(story: Story, topic: str, partition: int) -> dict[int, list[int]]:
    """Where each value is in the end; nothing if the final read did not come to the end."""
    rows = [r for r in story.history if (r.get("topic"), r.get("partition")) == (topic, partition)]
    ends = [r for r in rows if r["f"] == "final-read-end" and r.get("error") is None]
    reached = max((r["offset"] for r in ends if r["offset"] is not None), default=0)
    log_end = max(
        (
            r["end_offset"]
            for r in story.cluster
            if (r["kind"], r.get("topic"), r.get("partition")) == ("epoch", topic, partition)
            and r.get("end_offset") is not None
        ),
        default=0,
    )
    found: dict[int, list[int]] = defaultdict(list)
    if not any(r["type"] == "ok" for r in ends) or log_end > reached:
        return found
    doubtful = {r["value"] for r in rows if r["f"] == "send" and r["type"] != "ok" and r.get("txn")}
    for row in rows:
        hidden = row.get("isolation") == 0 and row.get("value") in doubtful
        if row["f"] == "final-read" and row["value"] is not None and not hidden:
            found[row["value"]].append(row["offset"])
    return defaultdict(list, {value: sorted(set(at)) for value, at in found.items()})


def _judged(story: Story, send: Row) -> bool:
    return send["type"] == "info" and (send.get("txn") is not None or _idempotent(story, send))


def _idempotent(story: Story, send: Row) -> bool:
    [planned] = [each for each in story.plan["topics"] if each["name"] == send["topic"]]
    return bool(planned.get("idempotence"))


def _over_ns(send: Row) -> int:
    return _NEVER_NS if send["complete_ns"] is None else send["complete_ns"]


def _left(story: Story, first: Row, second: Row) -> bool:
    """Whether the client began another producer epoch with the two in flight."""
    return any(
        r["invoke_ns"] - _SLACK_NS <= max(_over_ns(first), _over_ns(second))
        and _over_ns(r) >= first["invoke_ns"]
        for r in story.history
        if r["f"] == "producer-epoch" and r["client"] == first["client"]
    )


def _of_one_epoch(
    story: Story, known: Row, first: Row, second: Row, log: dict[int, list[int]]
) -> bool:
    if first.get("txn") is not None or second.get("txn") is not None:
        return False
    if not any(r["f"] == "end" and r["client"] == first["client"] for r in story.history):
        return False
    waited = second["type"] == "ok" and _over_ns(first) > second["complete_ns"] + _SLACK_NS
    if first["type"] == "info" and not waited:
        return False
    broker = story.plan.get("broker") or {}
    kept_ms = int(broker.get("producer.id.expiration.ms", _DAY_MS))
    clocks = [0.0, *(r["ahead_ms"] for r in story.cluster if r["kind"] == "clock")]
    kept_ms -= round(max(clocks) - min(clocks))
    until_ns = second["complete_ns"] if second["type"] == "ok" else first["complete_ns"]
    recent = until_ns - known["invoke_ns"] < kept_ms * 1_000_000 - S
    return recent and log[known["value"]][0] < log[second["value"]][0]
