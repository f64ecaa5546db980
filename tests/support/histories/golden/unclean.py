"""Elections from outside the in-sync and the eligible replicas, and near misses of them."""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.power_losses import changed
from tests.support.histories.story import ALL, S, Story, v


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="The new leader was not in sync")
def unclean_election_loses(s: Story) -> None:
    """Configured, and it took place."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.leader(ALL, 8, 1, 0, [1])
    s.send(ALL, 99, 10, 9.4)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def unclean_election_was_on_but_clean(s: Story) -> None:
    """Near miss of a permission: node 2 was in sync when it was elected."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.send(ALL, 99, 10, 9.4)


def _nobody_in_sync(s: Story, eligible: list[int]) -> None:
    """All have left the in-sync replicas before node 2 is elected, uncleanly if it must be."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.leader(ALL, 9.7, -1, 0, [])
    s.cluster[-1]["elr"] = eligible
    s.send(ALL, 99, 10, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="The new leader was not in sync")
def unclean_election_passes_over_the_eligible(s: Story) -> None:
    """Node 2 had been in sync with the last leader, and was not eligible any more."""
    _nobody_in_sync(s, [1, 3])


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def unclean_election_was_on_and_an_eligible_one_led(s: Story) -> None:
    """Near miss of a permission: who is eligible has everything."""
    _nobody_in_sync(s, [1, 2])


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="The new leader was not in sync")
def unclean_election_where_nobody_was_eligible(s: Story) -> None:
    """Node 2 had been in sync with the last leader, and nobody was eligible any more."""
    _nobody_in_sync(s, [])


def _leads_again(s: Story, eligible: list[int]) -> None:
    """Node 1 was the leader, and leads again after all had left the in-sync replicas."""
    _nobody_in_sync(s, eligible)
    for row in s.cluster:
        if row["topic"] == ALL and row["leader_epoch"] == 1 and row["kind"] in ("leader", "view"):
            row["leader"] = 1


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="node 1 became leader again at")
def unclean_election_of_the_leader_itself(s: Story) -> None:
    """It had come back without what it had, and was not eligible any more."""
    _leads_again(s, [2, 3])


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="node 1 became leader again at")
def unclean_election_of_the_leader_itself_where_nobody_was_eligible(s: Story) -> None:
    """Nor was anybody else."""
    _leads_again(s, [])


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def nobody_was_eligible_and_unclean_election_was_off(s: Story) -> None:
    """Near miss: without leave to lose anything."""
    _leads_again(s, [])
    s.set_topic(ALL, configs={})


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def leader_itself_was_eligible(s: Story) -> None:
    """Near miss of a permission: it should have had everything."""
    _leads_again(s, [1, 2])


def _older_tail_takes_the_place(s: Story) -> None:
    """Node 1 was cut off and went on; node 2 led then, and node 3, in epochs 1 and 2; node 1 is
    elected, uncleanly, and has ten records of epoch 0."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.cluster = [
        r for r in s.cluster if not (r["kind"] in ("leader", "view") and r["topic"] == ALL)
    ]
    for at_s, epoch, isr in ((0, 0, [1, 2]), (5, 1, [2, 3]), (9, 2, [3]), (10, 3, [1])):
        s.leader(ALL, at_s, isr[0], epoch, isr)
    s.leader(ALL, 16, 1, 3, [1, 2, 3])
    [_, last] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    last["leader_epoch"] = 3
    s.file_by_epochs(ALL)
    s.send(ALL, 99, 7, 6, node=2, leader_epoch=1)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="(epoch 3). Writes from offset 10 on")
def unclean_leader_brings_an_older_tail(s: Story) -> None:
    """Nothing that either of the leaders before it had accepted is in the final log."""
    _older_tail_takes_the_place(s)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def unclean_leader_had_what_was_accepted_after_it(s: Story) -> None:
    """Near miss: the final log has records of epoch 1, from offset 8 on."""
    _older_tail_takes_the_place(s)
    [first, _] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    s.cluster.append(first | {"leader_epoch": 1, "start_offset": 8})
    s.file_by_epochs(ALL)


def _two_who_do_not_know(s: Story, known_at_s: float) -> None:
    """Node 3 is elected, uncleanly, at 10 s. Node 1, and node 2, which had led since 9 s and knows
    that from `known_at_s` on, have what node 1 accepts a second later with acks=all."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.cluster = [
        r for r in s.cluster if not (r["kind"] in ("leader", "view") and r["topic"] == ALL)
    ]
    for at_s, epoch, isr in ((0, 0, [1, 2]), (9, 1, [2]), (10, 2, [3])):
        s.leader(ALL, at_s, isr[0], epoch, isr)
    s.leader(ALL, 16, 3, 2, [1, 2, 3])
    [_, last] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    last["leader_epoch"] = 2
    s.file_by_epochs(ALL)
    view = {"kind": "view", "topic": ALL, "partition": 0, "source": "story"}
    seen = ((1, 3, 15, 2), (2, 2, known_at_s, 1), (2, 3, 15, 2))
    for node, leader, at_s, epoch in seen:
        at_ns = round(at_s * S)
        s.cluster.append(
            view | {"node": node, "leader": leader, "leader_epoch": epoch, "at_ns": at_ns}
        )
    s.send(ALL, 99, 12, 11, node=1)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="(epoch 2). Writes from offset 10 on")
def deposed_leaders_write_together_after_an_unclean_election(s: Story) -> None:
    """Node 2 follows node 1, because it does not know that it leads."""
    _two_who_do_not_know(s, 14)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def only_one_of_the_deposed_leaders_did_not_know(s: Story) -> None:
    """Near miss: node 2 knew that it led, so it has nothing that node 1 accepts afterwards."""
    _two_who_do_not_know(s, 9.5)


def _read_from_an_earlier_leader(s: Story, known_at_s: float, written_s: float) -> None:
    """A consumer reads at 17.5 s what node 3, elected at 10 s, never got. Nodes 2 and 3 know all by
    15 s; node 1, which led before node 2, has it and knows of neither until `known_at_s`."""
    _two_who_do_not_know(s, 9.5)
    s.history.pop()
    s.send(ALL, 99, 20, written_s)
    s.poll(ALL, 17.5, {20: v(ALL, 99)})
    [known] = [r for r in s.cluster if r["kind"] == "view" and r["node"] == 1 and r["topic"] == ALL]
    known["at_ns"] = round(known_at_s * S)


@golden("VALID", {("lost-write", "tail"): (P, 1), ("truncated-read", None): (P, 1)},
        cause="(epoch 2). Writes from offset 10 on")  # fmt: skip
def read_from_an_earlier_leader_after_an_unclean_election(s: Story) -> None:
    """It does not know of its successors, and answers readers."""
    _read_from_an_earlier_leader(s, 30, 8.5)


@golden("INVALID", {("lost-write", "tail"): (P, 1), ("truncated-read", None): (F, 1)})
def read_when_all_earlier_leaders_knew_of_the_unclean_election(s: Story) -> None:
    """Near miss: nobody had it any more."""
    _read_from_an_earlier_leader(s, 15, 8.5)


@golden("INVALID", {("lost-write", "tail"): (P, 1), ("truncated-read", None): (F, 1)})
def read_when_the_earlier_leader_followed_its_successor(s: Story) -> None:
    """Near miss: it knew of node 2, and not of node 3, so it answered no reader."""
    _read_from_an_earlier_leader(s, 30, 8.5)
    [known] = [r for r in s.cluster if r["kind"] == "view" and r["node"] == 1 and r["topic"] == ALL]
    s.cluster.append(known | {"leader": 2, "leader_epoch": 1, "at_ns": 15 * S})


@golden("INVALID", {("lost-write", "tail"): (P, 1), ("truncated-read", None): (F, 1)})
def read_when_the_earlier_leader_was_the_one_without_it(s: Story) -> None:
    """Near miss: who did not know for long was node 3 itself."""
    _read_from_an_earlier_leader(s, 30, 8.5)
    for row in s.cluster:
        if row["topic"] == ALL and row["kind"] == "view" and row["node"] == 1:
            row["node"] = 3
        elif row["topic"] == ALL and row["kind"] == "leader" and row["leader"] == 1:
            row.update(leader=3, isr=[3, 2])


@golden("INVALID", {("lost-write", "tail"): (F, 1), ("truncated-read", None): (F, 1)})
def read_what_was_written_after_the_unclean_election(s: Story) -> None:
    """Near miss: node 1 cannot have had it, because no other node followed it."""
    _read_from_an_earlier_leader(s, 30, 16)


def _allowed_until(s: Story, healed_s: float) -> None:
    """Unclean elections were allowed for some seconds. Node 2 was elected at 10 s, and node 1,
    which does not know, accepts a write a second and a half later."""
    s.leader(ALL, 8, 1, 0, [1, 3])
    s.send(ALL, 99, 10, 11.5)
    changed(s, "unclean.leader.election.enable", "true", 4, healed_s)
    s.faults[0].update(fault="partition.isolate-one", label="isolate node 1")


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="The new leader was not in sync")
def unclean_election_while_it_was_allowed_and_written_after(s: Story) -> None:
    """It was forbidden again when node 1 wrote, but not when node 2 was elected."""
    _allowed_until(s, 11)


@golden("INVALID", {("lost-write", "middle"): (F, 1)}, cause="The new leader was not in sync")
def unclean_election_after_it_was_allowed(s: Story) -> None:
    """Near miss: it was forbidden again before node 2 was elected."""
    _allowed_until(s, 7.5)
