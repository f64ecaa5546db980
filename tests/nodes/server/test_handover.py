"""What a leader that stops in order costs its clients, counted in packets and syncs one after
another. A busy machine cannot change the counts: they are times of a simulated world in which
only packets, or only syncs, take time. `python -m tests.tools.leader_moves` measures real time.
"""

import pytest

from tests.support.simulation.handover import PERIOD_MS, handover

HOPS = 7
"""Old leader and successor learn of the change from the metadata log (1 packet), maybe not in the
same turn; an append at the successor waits for the followers' fetches in the new epoch (2), for
one more fetch that says what they have (2), and for its own way there and back (2)."""


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_handover_takes_few_packets_after_another(seed: int) -> None:
    found = handover(seed, delay_ms=1.0, sync_ms=0.0)
    assert found.new != found.old
    assert found.gap_ms <= HOPS + PERIOD_MS


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_handover_waits_for_no_disk(seed: int) -> None:
    """The old leader acknowledges while the controllers' disks make the change durable."""
    assert handover(seed, delay_ms=0.0, sync_ms=5.0).gap_ms <= 2 * PERIOD_MS
