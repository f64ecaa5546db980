"""Random faults of all kinds on a simulated cluster lose no record acknowledged with acks=all."""

import pytest

from tests.tools.simulation_storm import Storm


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 7])
def test_storm_of_faults_loses_nothing_and_repeats(seed: int) -> None:
    """The same seed makes the same faults and the same trace to the last event."""
    first, again = Storm(seed), Storm(seed)
    assert first.run(20) == set()
    assert again.run(20) == set()
    assert first.made == again.made
    assert first.world.trace.digest() == again.world.trace.digest()
    assert not first.world.troubles
