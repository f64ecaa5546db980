"""The golden histories: for every anomaly one run that shows it and near misses that do not.

Each is the healthy run of `story`, bent. `expect` lists everything that must be found, as
{(kind, aspect): (judgement, count)}; the times without acknowledgements, which every run has, are
left out. Nothing else may be found.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support.histories.story import Story, healthy

Found = Mapping[tuple[str, str | None], tuple[str, int]]
F, P, INFO, U = "forbidden", "permitted", "informational", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One history: its name, how the healthy run is bent, and what a checker must answer.

    because: a piece of text that one of the verdict's reasons must contain. cause: one that the
    cause of a permitted loss must contain.
    """

    name: str
    bend: Callable[[Story], None]
    outcome: str
    expect: Found = field(default_factory=dict)
    because: str = ""
    cause: str = ""
    expectation: str = ""
    """What becomes of the expectation in the plan; empty without one."""

    def story(self) -> Story:
        """The run."""
        story = healthy()
        self.bend(story)
        return story


ALL_GOLDEN: dict[str, Golden] = {}


def golden(
    outcome: str,
    expect: Found | None = None,
    *,
    because: str = "",
    cause: str = "",
    expectation: str = "",
) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """Register a function that bends the healthy run as a golden history."""

    def register(bend: Callable[[Story], None]) -> Callable[[Story], None]:
        name = bend.__name__
        assert name not in ALL_GOLDEN
        ALL_GOLDEN[name] = Golden(
            name=name,
            bend=bend,
            outcome=outcome,
            expect=expect or {},
            because=because,
            cause=cause,
            expectation=expectation,
        )
        return bend

    return register


def moved_away(s: Story, topic: str, node: int) -> None:
    """The node held a replica of the partition for some seconds, and was never in sync."""
    s.leader(topic, 20, 2, 1, [1, 2, 3])
    s.cluster[-1]["replicas"] = [1, 2, 3, node]
    s.leader(topic, 30, 2, 1, [1, 2, 3])
    s.cluster[-1]["replicas"] = [1, 2, 3]
