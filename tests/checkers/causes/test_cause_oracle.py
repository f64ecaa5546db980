"""What the checkers say took a lost write, against a simulated world that knows."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.causes.cause import Cause, CauseKind
from harness.plans import plan as plans
from harness.run.prepare import Prepared
from harness.simulation.campaign import Task, prepared
from harness.simulation.invariants.partition_history import Batch
from harness.simulation.run import Simulation
from tests.support.tiers import in_turn
from tests.tools.cause_oracle import witness
from tests.tools.cause_oracle.comparing import Agreement, agreement, compare, witnessed
from tests.tools.cause_oracle.truth import Oracle, Struck, Truth
from tests.tools.cause_oracle.witness import Handled, Led, Posted

PLACE = ("none", 0)
LOSING = (2, 5, 8, 46, 58, 71, 137, 234, 293, 357)
"""Seeds that lose writes of every acks mode, each by other ways."""
SHORT = 12
"""A seed whose run takes little time."""


def swarm(seed: int) -> Prepared:
    """A seed of the packaged plan's swarm."""
    plan = plans.build(plans.load("simulation"), where="simulation", flags={})
    return prepared(Task(plan=plan, seeds_are_swarms=True, root=Path()), seed)


@pytest.mark.parametrize(
    "seed",
    in_turn(
        "checkers/causes/test_cause_oracle.py::test_no_loss_is_laid_to_a_wrong_cause", LOSING, of=10
    ),
)
def test_no_loss_is_laid_to_a_wrong_cause(seed: int) -> None:
    """The truth is among the causes that are named, for every lost write; and it is known."""
    found = compare(swarm(seed))
    assert found
    bad = (Agreement.WRONG, Agreement.UNNAMED, Agreement.UNKNOWN)
    assert not [each.line() for each in found if each.agreement in bad]


def test_a_run_has_the_same_trace_with_and_without_a_witness() -> None:
    """What is looked at is not changed by it."""
    recording, seen = witnessed(swarm(SHORT))
    assert seen.posted
    assert seen.handled
    assert seen.led
    assert recording.digest == Simulation(swarm(SHORT)).run().digest


def _batch(base: int, epoch: int, before: Batch | None) -> Batch:
    return Batch(base, base + 1, epoch, 0, before)


def _handled(node: int, at_ns: int, error: str = "none", epoch: int = 0) -> Handled:
    return Handled(at_ns=at_ns, node=node, epoch=epoch, error=error, values=(7,), base_offset=1)


def _posted(node: int, at_ns: int, *, value: int = 7, before: int = 0) -> Posted:
    return Posted(at_ns=at_ns, node=node, epoch=0, socket=1, values=(value,), before=before)


def _seen() -> witness.Observations:
    """Node 1 led with a log of two records in epoch 0; node 2 led from 50 on in epoch 2 with the
    first of them only."""
    first = _batch(0, 0, None)
    seen = witness.Observations()
    seen.led[PLACE] = {
        0: Led(at_ns=0, node=1, epoch=0, last=None),
        2: Led(at_ns=50, node=2, epoch=2, last=first),
    }
    seen.elected[PLACE] = {0: 1, 2: 2}
    seen.posted[PLACE] = [_posted(1, 10)]
    return seen


def _fault(fault: str, began_ns: int, ended_ns: int, *pairs: tuple[int, int]) -> Struck:
    return Struck(
        number=3, fault=fault, nodes=frozenset({1}), pairs=frozenset(pairs), began_ns=began_ns,
        ended_ns=ended_ns,
    )  # fmt: skip


def test_oracle_names_the_first_leader_from_whom_on_nobody_had_the_record() -> None:
    """And the epochs before it, in which nobody else was to lead."""
    seen = _seen()
    seen.handled[PLACE] = [_handled(1, 11)]
    assert Oracle(seen, []).of(PLACE, 7, 1).epochs == {1, 2}


def test_oracle_names_the_election_that_made_a_node_refuse() -> None:
    """It led no more."""
    seen = _seen()
    seen.handled[PLACE] = [_handled(1, 60, "not_leader_or_follower", 2)]
    assert Oracle(seen, []).of(PLACE, 7, None).epochs == {1, 2}


def test_oracle_names_the_fault_that_broke_the_connection() -> None:
    """By what it does: it resets connections, ends programs, or lets nothing through."""
    seen = _seen()
    seen.reset[1] = 12
    assert Oracle(seen, [_fault("reset", 11, 13)]).of(PLACE, 7, None).faults == {3}
    seen = _seen()
    seen.ended[1] = [12]
    assert Oracle(seen, [_fault("kill", 11, 13)]).of(PLACE, 7, None).faults == {3}
    assert not Oracle(seen, [_fault("kill", 13, 14)]).of(PLACE, 7, None).known
    seen = _seen()
    seen.held_up[1] = [12]
    assert Oracle(seen, [_fault("cut.clients", 11, 13, (0, 1))]).of(PLACE, 7, None).faults == {3}
    assert not Oracle(seen, [_fault("partition.halves", 11, 13, (1, 2))]).of(PLACE, 7, None).known


def test_oracle_names_the_refusal_that_closed_the_connection() -> None:
    """Of what was sent for another partition before."""
    seen = _seen()
    other = ("none", 1)
    seen.led[other] = seen.led[PLACE]
    seen.elected[other] = seen.elected[PLACE]
    seen.posted[other] = [_posted(1, 9, value=8)]
    seen.posted[PLACE] = [_posted(1, 10, before=1)]
    refused = _handled(1, 60, "not_leader_or_follower", 2)
    seen.handled[other] = [replace(refused, values=(8,), leads=frozenset({PLACE}))]
    truth = Oracle(seen, []).of(PLACE, 7, None)
    assert truth.elsewhere == {(other, 1), (other, 2)}
    assert not truth.epochs


def test_agreement_is_exact_ambiguous_or_wrong() -> None:
    """One cause and the truth; several, the truth among them; the truth not among them."""
    common = {"topic": "none", "partition": 0, "text": "", "from_ns": 0, "near_until_ns": 0}
    one, two = (Cause(kind=CauseKind.ELECTION, epoch=epoch, **common) for epoch in (1, 2))
    truth = Truth(how="", epochs=frozenset({1}))
    assert agreement((one,), truth) is Agreement.EXACT
    assert agreement((one, two), truth) is Agreement.AMBIGUOUS
    assert agreement((two,), truth) is Agreement.WRONG
    assert agreement((), truth) is Agreement.UNNAMED
    assert agreement((one,), Truth(how="")) is Agreement.UNKNOWN
