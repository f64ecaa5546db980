"""Times without acknowledgements, and what a verdict takes for granted."""

from tests.support.histories.golden.base import P, U, golden
from tests.support.histories.story import ALL, NONE, ONE, S, Story, v


@golden("VALID", expectation="failed")
def nobody_could_write_for_too_long(s: Story) -> None:
    """From 5.0 s to 11.5 s there was no acknowledgement; expected are 5 s at most."""
    s.plan["expect"] = ["unavailable_ms <= 5000"]


@golden("VALID", expectation="passed")
def nobody_could_write_for_a_while(s: Story) -> None:
    """Near miss: expected are 7 s at most."""
    s.plan["expect"] = ["unavailable_ms <= 7000"]


@golden("VALID", expectation="failed")
def never_recovers(s: Story) -> None:
    """The last sends were never answered."""
    s.plan["expect"] = ["unavailable_ms <= 7000"]
    for topic in (ONE, ALL):
        s.send(topic, 30, None, 30, type="info", complete_ns=None)


@golden("UNKNOWN", because="sent once")
def value_was_sent_twice(s: Story) -> None:
    """The workload broke its promise, so duplicates prove nothing."""
    s.send(ALL, 20, 19, 16.5)


@golden("UNKNOWN", because="failed check: clocks were monotonic")
def clock_went_back(s: Story) -> None:
    """An operation that ends before it begins."""
    s.rows("send", ALL)[0]["complete_ns"] = 0


@golden("UNKNOWN", because="failed check: a planned fault took effect")
def no_fault_took_effect(s: Story) -> None:
    """Nothing was tested."""
    s.faults[0].update(took_effect=False, error="no such process")


@golden("VALID")
def one_fault_of_two_took_effect(s: Story) -> None:
    """Near miss: reported, but something was tested."""
    s.faults.append({**s.faults[0], "fault_id": 1, "took_effect": False})


@golden("UNKNOWN", because="failed check: every fault took effect")
def one_step_of_a_script_did_nothing(s: Story) -> None:
    """What the script was to show was not put to the test."""
    s.plan["nemesis"] = {"events": [{"fault": "kill"}, {"fault": "kill"}]}
    s.faults.append({**s.faults[0], "fault_id": 1, "took_effect": False, "error": "not injected"})


@golden("VALID")
def every_step_of_a_script_was_taken(s: Story) -> None:
    """Near miss: both did what they were to do."""
    s.plan["nemesis"] = {"events": [{"fault": "kill"}, {"fault": "kill"}]}
    s.faults.append({**s.faults[0], "fault_id": 1})


@golden("VALID")
def no_fault_was_planned(s: Story) -> None:
    """Near miss: a run without a nemesis may be valid."""
    s.faults.clear()
    s.plan["nemesis"]["faults"] = []


@golden("UNKNOWN", because="failed check: the cluster settled")
def cluster_did_not_settle(s: Story) -> None:
    """Node 1 never came back into the ISR."""
    s.cluster = [
        r
        for r in s.cluster
        if not (r["topic"] == ALL and r["kind"] == "leader" and r["at_ns"] == 16 * S)
    ]


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)}, because="none in all")
def nothing_acknowledged_in_a_topic(s: Story) -> None:
    """Two topics worked, the third did not."""
    for row in s.rows("send", ALL):
        row |= {"type": "info", "offset": None}


@golden("UNKNOWN", because="failed check: consumers read")
def nobody_read_while_it_ran(s: Story) -> None:
    """Consumers were planned, and none returned a record."""
    s.history = [r for r in s.history if r["f"] != "poll"]


@golden("UNKNOWN", because="divergent-replicas nothing-to-judge")
def replicas_were_not_collected(s: Story) -> None:
    """The files of our own broker can be read, so their absence is a gap."""
    s.replicas.clear()
    s.replica_ends.clear()


@golden("UNKNOWN", {("lost-write", None): (P, 1)},
        because="replicas know of committed records beyond the final reads: none-0")  # fmt: skip
def final_reads_end_before_what_is_committed(s: Story) -> None:
    """The final read was told that the log ends at 19; all files have 20 as committed."""
    s.forget(topic=NONE, values={v(NONE, 20)})
    s.rows("final-read-end", NONE)[0]["offset"] = 19


@golden("VALID")
def replica_knows_less_to_be_committed_than_was_read(s: Story) -> None:
    """Near miss: a node wrote down its high watermark some time before it stopped."""
    for row in s.replica_ends:
        if (row["node"], row["topic"]) == (3, NONE):
            row["high_watermark"] = 15


@golden("UNKNOWN", because="no acknowledged write")
def empty_history(s: Story) -> None:
    """A run that was killed before it did anything."""
    s.history.clear()
    s.cluster.clear()
    s.faults.clear()
    s.replicas.clear()
    s.replica_ends.clear()
