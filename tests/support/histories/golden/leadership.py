"""Who led, and who may: epochs with two leaders, in-sync replicas that were not, lost metadata."""

from collections.abc import Sequence

from checkers.history.history import METADATA_TOPIC
from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.state_losses import led
from tests.support.histories.story import ALL, S, Story

OTHER = 99


def _viewed(s: Story, at_s: float, node: int, leader: int | None, epoch: int) -> None:
    s.cluster.append({"at_ns": round(at_s * S), "kind": "view", "topic": ALL, "partition": 0,
                      "node": node, "leader": leader, "leader_epoch": epoch})  # fmt: skip


@golden("INVALID", {("two-leaders", "told"): (F, 1)})
def nodes_name_two_leaders_of_one_epoch(s: Story) -> None:
    """Node 2 leads in epoch 1, and node 3 holds itself to be."""
    _viewed(s, 20, 3, 3, 1)


@golden("VALID")
def nodes_name_leaders_of_two_epochs(s: Story) -> None:
    """Near miss: one is late; another knows of no leader."""
    _viewed(s, 20, 3, 1, 0)
    _viewed(s, 20, 1, None, 1)


@golden("INVALID", {("two-leaders", "answered"): (F, 1)})
def two_nodes_answer_in_one_epoch(s: Story) -> None:
    """Both told the end of the log as its leader."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 30, 20, client=OTHER, node=2, leader_epoch=1)
    s.watermark(ALL, 31, 20, client=OTHER, node=3, leader_epoch=1)
    s.row("end", OTHER, 61)


@golden("INVALID", {("two-leaders", "unelected"): (F, 1)})
def node_answers_in_the_epoch_of_another(s: Story) -> None:
    """Node 3 told the end of the log as the leader of epoch 1; all name node 2."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 31, 20, client=OTHER, node=3, leader_epoch=1)
    s.row("end", OTHER, 61)


@golden("VALID")
def node_answers_in_an_epoch_of_which_no_leader_is_known(s: Story) -> None:
    """Near miss: nothing names the leader of epoch 2."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 31, 20, client=OTHER, node=3, leader_epoch=2)
    s.row("end", OTHER, 61)


@golden("VALID")
def two_nodes_answer_in_two_epochs(s: Story) -> None:
    """Near miss: the deposed leader answered for its own."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 9, 10, client=OTHER, node=1, leader_epoch=0)
    s.watermark(ALL, 31, 20, client=OTHER, node=2, leader_epoch=1)
    s.row("end", OTHER, 61)


@golden("INVALID", {("two-leaders", "wrote"): (F, 1), ("divergent-replicas", "bytes"): (F, 1)})
def two_leaders_wrote_in_one_epoch(s: Story) -> None:
    """Node 3 has another batch of epoch 1 at offset 15."""
    for row in s.replicas:
        if (row["node"], row["topic"], row["base_offset"]) == (3, ALL, 15):
            row.update(digest="another", crc=99)


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_have_batches_of_two_epochs(s: Story) -> None:
    """Near miss: divergent, but each epoch had one leader."""
    two_leaders_wrote_in_one_epoch(s)
    for row in s.replicas:
        if row["digest"] == "another":
            row["leader_epoch"] = 0


def decided(s: Story, *isrs: tuple[float, int, int, Sequence[int]], topic: str = ALL) -> None:
    """What the controllers decided, at offsets 10, 20, … of the metadata log."""
    led(s, topic, *isrs)
    mine = [row for row in s.cluster if (row["kind"], row["topic"]) == ("leader", topic)]
    for number, row in enumerate(mine, 1):
        row.update(source="metadata-log", log_offset=10 * number)


def _fencing(s: Story, node: int, log_offset: int, *, fenced: bool = True) -> None:
    kind = "fenced" if fenced else "unfenced"
    s.cluster.append({"at_ns": 8 * S, "kind": kind, "node": node, "log_offset": log_offset,
                      "source": "metadata-log", "topic": None})  # fmt: skip


START, END = (0, 1, 0, (1, 2, 3)), (16, 2, 1, (2, 3, 1))


@golden("INVALID", {("isr-broken", "outside"): (F, 1)})
def outsider_is_elected(s: Story) -> None:
    """Node 2 had left the in-sync replicas, which were enough without it."""
    decided(s, START, (8, 1, 0, (1, 3)), (10, 2, 1, (2,)), END)


@golden("VALID", {("isr-broken", "outside"): (P, 1)})
def outsider_is_elected_as_configured(s: Story) -> None:
    """The same with unclean elections."""
    outsider_is_elected(s)
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})


@golden("VALID")
def eligible_replica_is_elected(s: Story) -> None:
    """Near miss: node 2 left when they were fewer than min.insync.replicas."""
    decided(s, START, (7, 1, 0, (1, 2)), (8, 1, 0, (1,)), (10, 2, 1, (2,)), END)


@golden("INVALID", {("isr-broken", "outside"): (F, 1)})
def replica_is_elected_that_the_controllers_held_not_eligible(s: Story) -> None:
    """The record names the eligible ones: node 2 is none, it may have lost its memory."""
    eligible_replica_is_elected(s)
    for row in s.cluster:
        if row["kind"] == "leader" and row["topic"] == ALL:
            row["elr"] = []


def _hosted(s: Story, *replicas: Sequence[int]) -> None:
    """Who is to hold the partition, by what the controllers decided, in turn."""
    mine = [row for row in s.cluster if (row["kind"], row["topic"]) == ("leader", ALL)]
    for row, hosts in zip(mine, replicas, strict=True):
        row["replicas"] = list(hosts)


@golden("VALID")
def new_replica_is_elected_when_the_leader_is_moved_away(s: Story) -> None:
    """One record adds node 2 to the in-sync replicas, ends the reassignment, and elects it."""
    decided(s, (*START[:3], (1, 3)), (10, 2, 1, (2, 3)), END)
    _hosted(s, (1, 3, 2), (2, 3), (2, 3, 1))


@golden("INVALID", {("isr-broken", "outside"): (F, 1)})
def new_replica_is_elected_though_the_leader_stays(s: Story) -> None:
    """Near miss: the reassignment is over, and node 1 is still one of the replicas."""
    decided(s, (*START[:3], (1, 3)), (10, 2, 1, (2, 3)), END)
    _hosted(s, (1, 3, 2), (2, 3, 1), (2, 3, 1))


@golden("INVALID", {("isr-broken", "absent"): (F, 1)})
def somebody_else_is_elected_when_the_leader_is_moved_away(s: Story) -> None:
    """Near miss: node 2 was not in sync before, and is not now."""
    decided(s, (*START[:3], (1, 3)), (10, 2, 1, (3,)), END)
    _hosted(s, (1, 3, 2), (2, 3), (2, 3, 1))


@golden("INVALID", {("isr-broken", "absent"): (F, 1)})
def leader_is_not_in_sync_itself(s: Story) -> None:
    """Node 2 leads, and only nodes 1 and 3 are in sync."""
    decided(s, START, (10, 2, 1, (1, 3)), END)


@golden("INVALID", {("isr-broken", "fenced-in-sync"): (F, 1)})
def fenced_broker_is_taken_into_the_in_sync_replicas(s: Story) -> None:
    """Node 3 was fenced, left, and is back while it still is fenced."""
    decided(s, START, (8, 1, 0, (1, 2)), (10, 2, 1, (2, 3)), END)
    _fencing(s, 3, 20)


@golden("VALID")
def unfenced_broker_is_taken_into_the_in_sync_replicas(s: Story) -> None:
    """Near miss: it was let back in before."""
    fenced_broker_is_taken_into_the_in_sync_replicas(s)
    _fencing(s, 3, 25, fenced=False)


@golden("INVALID", {("isr-broken", "fenced-leader"): (F, 1)})
def fenced_broker_is_elected(s: Story) -> None:
    """Node 2 was fenced, and nobody took it out."""
    decided(s, START, (8, 1, 0, (1, 2)), (10, 2, 1, (2,)), END)
    _fencing(s, 2, 25)


@golden("INVALID", {("metadata-rollback", "leader"): (F, 1)})
def metadata_log_has_forgotten_a_leader(s: Story) -> None:
    """Node 3 knew of a leader in epoch 2, which is in nobody's log."""
    decided(s, START, (10, 2, 1, (2, 3)), END)
    _viewed(s, 30, 3, 3, 2)


@golden("VALID")
def leader_was_told_after_the_final_read(s: Story) -> None:
    """Near miss: of a shutdown the log is read without its last decisions."""
    decided(s, START, (10, 2, 1, (2, 3)), END)
    _viewed(s, 62, 3, 3, 2)


@golden("VALID")
def leader_was_told_before_the_log_begins(s: Story) -> None:
    """Near miss: the log was trimmed, and begins with epoch 1."""
    decided(s, (10, 2, 1, (2, 3)), END)


def _copies(s: Story, *ends: int, committed: int) -> None:
    """The nodes' copies of the metadata log, which end there; nine records a batch."""
    for node, end in enumerate(ends, 1):
        common = {"node": node, "topic": METADATA_TOPIC, "partition": 0}
        for base in range(0, end, 9):
            where = {"base_offset": base, "last_offset": base + 8, "leader_epoch": 1}
            s.replicas.append(common | where | {"crc": base, "digest": f"{base}", "size": 90})
        s.replica_ends.append(
            common | {"start_offset": 0, "end_offset": end, "high_watermark": committed}
        )


@golden("VALID", {("unequal-ends", None): (INFO, 1)})
def one_node_is_late_with_the_metadata_log(s: Story) -> None:
    """Near miss: the others have what is committed."""
    _copies(s, 27, 18, 27, committed=25)


@golden("INVALID", {("metadata-rollback", "log"): (F, 1)})
def metadata_log_ends_before_what_was_committed(s: Story) -> None:
    """Up to 28 was told to be committed, and nobody has more than 27."""
    _copies(s, 27, 27, 27, committed=28)


@golden("INVALID", {("two-leaders", "wrote"): (F, 1)})
def two_leaders_of_the_quorum(s: Story) -> None:
    """Not committed, and yet the proof: two batches of one epoch at one offset."""
    _copies(s, 27, 27, 27, committed=18)
    s.replicas[-1].update(crc=99, digest="another")


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def metadata_logs_differ_below_what_is_committed(s: Story) -> None:
    """Another epoch's batch."""
    _copies(s, 27, 27, 27, committed=27)
    s.replicas[-1].update(crc=99, digest="another", leader_epoch=2)
