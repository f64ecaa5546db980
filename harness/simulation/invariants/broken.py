"""What is raised when an invariant does not hold."""

from harness.simulation.invariants.names import INVARIANTS
from harness.simulation.world.world import SimulationError


class InvariantBroken(SimulationError):
    """An invariant does not hold: `name` says which, `sentence` where, between whom, and how."""

    def __init__(self, name: str, sentence: str) -> None:
        assert name in INVARIANTS, f"{name} is not among the names of invariants"
        super().__init__(f"{name}: {sentence}")
        self.name = name
        self.sentence = sentence
