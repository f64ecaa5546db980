"""When a majority of voters lacked its disks, and until when."""

from collections.abc import Sequence
from typing import Any

import pytest

from checkers.causes.quorum_loss import quorum_losses
from checkers.history.recorded_faults import Fault, LostState
from checkers.history.settings import FOREVER_NS
from tests.support.histories.story import S


def lost(at_s: int, *nodes: int) -> Fault:
    """These nodes lost their disks then."""
    return Fault(
        fault_id=at_s, label="disk.lost", aimed=frozenset(nodes), cut=frozenset(),
        started_ns=at_s * S, healed_ns=(at_s + 1) * S, effective_ns=at_s * S, loses=LostState.DISK,
        whole_disk=True,
    )  # fmt: skip


def voting(at_s: int, *voters: int) -> dict[str, Any]:
    """Who the voters are from then on."""
    return {"at_ns": at_s * S, "isr": list(voters), "partition_epoch": None}


FIVE = voting(0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("told", "faults", "until_s"),
    [
        ([], [lost(5, 1, 2, 3)], []),
        ([FIVE], [lost(5, 1, 2)], []),
        ([FIVE], [lost(5, 1, 2, 3)], [None]),
        ([FIVE], [lost(5, 1, 2), lost(6, 3)], [None]),
        ([FIVE], [lost(5, 1, 2, 9)], []),
        ([FIVE, voting(8, 4, 5), voting(20, 1, 4, 5)], [lost(5, 1, 2, 3)], [20]),
        ([FIVE, voting(8, 5), voting(20, 1, 5), voting(30, 1, 2, 5)], [lost(5, 1, 2, 3, 4)], [30]),
        ([FIVE, voting(6, 2, 3, 4, 5), voting(7, 1, 2, 3, 4, 5)], [lost(5, 1), lost(9, 2, 3)], []),
    ],
)  # fmt: skip
def test_quorum_loss_lasts_until_a_majority_is_back(
    told: Sequence[dict[str, Any]], faults: Sequence[Fault], until_s: list[int | None]
) -> None:
    """Not before one more than half lack their disks together; over once enough are back."""
    found = [each.back_ns for each in quorum_losses(told, faults)]
    assert found == [FOREVER_NS if at_s is None else at_s * S for at_s in until_s]


def test_power_loss_and_damage_are_no_quorum_loss() -> None:
    """Power takes nothing that it counts on, and damage is refused."""
    faults = [Fault(
        fault_id=1, label="power-loss", aimed=frozenset({1, 2, 3, 4, 5}), cut=frozenset(),
        started_ns=S, healed_ns=2 * S, effective_ns=S, loses=LostState.UNFLUSHED,
    )]  # fmt: skip
    assert quorum_losses([FIVE], faults) == []


def test_text_names_nodes_voters_faults_and_time() -> None:
    """Nodes, voters, the faults, the moment."""
    [loss] = quorum_losses([voting(0, 1, 2, 3)], [lost(5, 1), lost(6, 3)])
    assert loss.text == (
        "Nodes 1, 3 of the voters 1, 2, 3 lacked their disks at the same time, from 6.000 s on, "
        "because of fault 5 (disk.lost, 5.000 s to 6.000 s); fault 6 (disk.lost, 6.000 s to "
        "7.000 s). The quorum may have lost committed metadata."
    )
