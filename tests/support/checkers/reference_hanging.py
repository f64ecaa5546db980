"""The detector of hanging transactions again, in plain Python: see `reference`."""

import json

from tests.support.histories.story import S, Story

_BOUND_NS = 10 * S
_CUT_NS = 15 * S
_DAMAGING = ("disk.bit-flip", "disk.cut-tail", "disk.misdirected", "disk.stale-copy", "disk.lost")


def find_hanging(story: Story) -> list[tuple[str, int]]:
    """The partitions with a final read that nothing in the record held up."""
    history = story.history
    timeout_ns = story.plan["workload"].get("transaction_timeout_ms", 60_000) * 1_000_000
    clocks = [0.0, *(r["ahead_ms"] for r in story.cluster if r["kind"] == "clock")]
    timeout_ns += round((max(clocks) - min(clocks)) * 1_000_000)
    ended = {r["client"] for r in history if r["f"] == "end"}
    cut = {r["client"] for r in history if r.get("transactional_id")} - ended
    found = []
    for read in history:
        if read["f"] != "final-read-end" or read.get("isolation") != 1:
            continue
        at = (read["topic"], read["partition"])
        ends = [
            r["high_watermark"] for r in story.replica_ends if (r["topic"], r["partition"]) == at
        ]
        ends += [
            r["end_offset"]
            for r in story.cluster
            if (r["kind"], r.get("topic"), r.get("partition")) == ("epoch", *at)
            and r.get("end_offset") is not None
        ]
        if read.get("error") not in (None, "timeout") or read["offset"] >= max(ends, default=0):
            continue
        open_until = [
            max(r["complete_ns"] or r["invoke_ns"] for r in history if r["client"] == client)
            + timeout_ns
            + _CUT_NS
            for client in cut
        ]
        for txn in {r["txn"] for r in history if r.get("txn") is not None and r["f"] == "send"}:
            sends = [
                r
                for r in history
                if (r["f"], r.get("txn")) == ("send", txn) and (r["topic"], r["partition"]) == at
            ]
            over = [
                r["complete_ns"]
                for r in history
                if r["f"] in ("commit-transaction", "abort-transaction")
                and r["txn"] == txn
                and r["type"] != "info"
            ]
            if sends:
                begun_ns = max(r["invoke_ns"] for r in sends)
                until = max(over) if over else begun_ns + timeout_ns
                open_until.append(until + _BOUND_NS)
        if all(until < read["complete_ns"] for until in open_until):
            found.append(at)
    return found if not _coordinator_is_missing(story) else []


def _coordinator_is_missing(story: Story) -> bool:
    """Whether in the end only replicas with damaged logs may lead a partition of the coordinators.
    No story has leaders of these partitions after its final reads."""
    states = [r for r in story.cluster if r.get("topic") == "__transaction_state"]
    for partition in {r["partition"] for r in states}:
        rows = [r for r in states if r["partition"] == partition and r["kind"] == "leader"]
        last = max(rows, key=lambda r: (r["leader_epoch"], r["at_ns"]))
        may_lead = {last["leader"]} if last["leader"] >= 0 else set(last["isr"])
        damaged = {
            node
            for fault in story.faults
            if fault["fault"] in _DAMAGING and fault["took_effect"]
            for node in json.loads(fault["targets"])["nodes"]
            if f"__transaction_state-{partition}/"
            in (fault.get("damaged") or f"__transaction_state-{partition}/")
        }
        if damaged and may_lead <= damaged:
            return True
    return False
