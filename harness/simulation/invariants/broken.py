"""The error that a broken invariant raises."""

from harness.simulation.invariants.names import INVARIANTS
from harness.simulation.world.world import SimulationError


class InvariantBroken(SimulationError):
    """An invariant does not hold. `name` is its name; `sentence` says where, between which nodes,
    and how.
    """

    def __init__(self, name: str, sentence: str) -> None:
        assert name in INVARIANTS, f"{name} is not the name of an invariant"
        super().__init__(f"{name}: {sentence}")
        self.name = name
        self.sentence = sentence
