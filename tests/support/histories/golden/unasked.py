"""What acks=0 lost, of which no offset is known: who led when it was sent says what took it."""

import json
from typing import Any

from tests.support.histories.golden.base import P, golden
from tests.support.histories.story import NONE, S, Story

LOST = {("lost-write", None): (P, 1)}


def _fault(s: Story, fault: str, from_s: float, to_s: float, **targets: Any) -> dict[str, Any]:
    nodes = targets.get("nodes", ())
    row = s.faults[0] | {
        "fault_id": len(s.faults), "fault": fault, "label": f"{fault} node {nodes[0]}",
        "targets": json.dumps(targets), "started_ns": round(from_s * S),
        "effective_ns": round(from_s * S), "healed_ns": round(to_s * S), "effect": "measured",
    }  # fmt: skip
    s.faults.append(row)
    return row


def _cut_off(s: Story, node: int) -> dict[str, list[Any]]:
    others = [each for each in (1, 2, 3) if each != node]
    return {"nodes": [node], "cuts": [[node, other, 0] for other in others]}


def _elected(s: Story, at_s: float, leader: int, epoch: int, start_offset: int) -> None:
    s.leader(NONE, at_s, leader, epoch, [leader])
    s.leader(NONE, at_s + 2, leader, epoch, [leader, *(n for n in (1, 2, 3) if n != leader)])
    [first, *_] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == NONE]
    s.cluster.append(first | {"leader_epoch": epoch, "start_offset": start_offset})


def _sent_to_the_next_leader(s: Story) -> None:
    """Node 2 is cut off from 16.5 s on, and node 3 leads from 19 s on. Node 1, which was killed and
    leads no more, knew of that at 15 s only."""
    _fault(s, "partition.isolate-leader", 16.5, 20, **_cut_off(s, 2))
    _elected(s, 19, 3, 2, 20)


@golden("VALID", LOST, cause="node 3 replaced node 2 as leader at 19.000 s")
def acks_0_loses_to_the_election_after_it_not_to_the_one_before(s: Story) -> None:
    """The last send before it, at 16 s, lies in the epoch of node 2."""
    _sent_to_the_next_leader(s)
    s.send(NONE, 99, None, 16.7)


@golden("VALID", LOST, cause="(partition.isolate-leader node 2, 16.500 s to 20.000 s)")
def acks_0_loses_to_the_fault_that_began_with_the_losses(s: Story) -> None:
    """And not to the kill that was over at 14 s."""
    acks_0_loses_to_the_election_after_it_not_to_the_one_before(s)


@golden("VALID", LOST, cause="node 2 replaced node 1 as leader at 10.000 s")
def acks_0_loses_to_the_first_of_two_elections(s: Story) -> None:
    """Near miss: what the same client sent later lies in the epoch of node 2."""
    _sent_to_the_next_leader(s)
    s.send(NONE, 99, None, 9.7)


@golden("VALID", LOST, cause=" (2) In ")
def acks_0_loses_to_either_of_two_elections(s: Story) -> None:
    """Node 2 led from 10 s to 11 s and nothing is left of that: node 3, or it already, may have
    lacked what was sent to node 1."""
    s.cluster = [r for r in s.cluster if not (r["topic"] == NONE and r["leader_epoch"] == 1)]
    s.leader(NONE, 10, 2, 1, [2, 3])
    _elected(s, 11, 3, 2, 10)
    s.file_by_epochs(NONE)
    s.send(NONE, 99, None, 9.4)


@golden("VALID", LOST, cause="no cause in the record")
def acks_0_loses_while_nothing_was_wrong(s: Story) -> None:
    """The same client's sends right before and after it lie in one epoch."""
    s.send(NONE, 99, None, 12.2)


@golden("VALID", LOST, cause="(reset node 2, 12.100 s to 12.300 s).")
def acks_0_loses_what_was_on_its_way(s: Story) -> None:
    """Its connection was reset; nobody was deposed."""
    acks_0_loses_while_nothing_was_wrong(s)
    _fault(s, "reset", 12.1, 12.3, nodes=[2], links=[[2, 0], [2, 1]])


@golden("VALID", LOST, cause="(reset node 2, 12.100 s to 12.300 s, its effect not proven)")
def acks_0_loses_by_a_fault_whose_effect_was_not_proven(s: Story) -> None:
    """It was begun."""
    acks_0_loses_what_was_on_its_way(s)
    s.faults[-1].update(took_effect=False, error="it failed half-way")


@golden("VALID", LOST, cause="no cause in the record")
def acks_0_loses_while_nodes_were_cut_off_from_each_other(s: Story) -> None:
    """Near miss: clients reach a node that other nodes do not."""
    acks_0_loses_while_nothing_was_wrong(s)
    _fault(s, "partition.isolate-leader", 12.1, 12.3, **_cut_off(s, 2))


@golden("VALID", LOST, cause="no cause in the record")
def acks_0_loses_by_a_fault_that_was_not_injected(s: Story) -> None:
    """Near miss."""
    acks_0_loses_what_was_on_its_way(s)
    s.faults[-1].update(took_effect=False, error="not injected: nobody was there")
