"""Small worlds for tests; each is ended after its test."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.simulation.worlds import Bare, MakeBare, bare


@pytest.fixture
def make() -> Iterator[MakeBare]:
    """Makes small worlds; see `worlds.bare`."""
    made: list[Bare] = []

    def one(**options: Any) -> Bare:
        made.append(bare(**options))
        return made[-1]

    yield one
    for world in made:
        world.end()
