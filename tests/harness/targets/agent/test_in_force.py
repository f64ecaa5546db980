"""What is in force on a machine, as calls that make it again."""

from typing import Any

from harness.targets.agent.in_force import Call, CallsInForce, Method
from harness.targets.agent.machine import Machine
from nemesis.hosts import Clocks, Cut, Disks, LinkQuality, Links

SLOW, LOSSY = LinkQuality(delay_ms=10), LinkQuality(lost=0.1)


def standing(*calls: tuple[Any, ...]) -> list[tuple[Method, tuple[Any, ...]]]:
    """What is in force after (method, argument, ...) of these."""
    made = CallsInForce()
    for method, *args in calls:
        made.update(Call(method, tuple(args)))
    return [(call.method, call.args) for call in made.calls()]


def test_cuts_end_one_by_one() -> None:
    """However many were made by one call, of each layer apart; again is no error."""
    one, two, again = Cut(1, 2), Cut(3, 2), Cut(1, 2, layer="x")
    assert standing(
        (Links.block, one, two, again), (Links.block, one), (Links.unblock, one, Cut(9, 2))
    ) == [(Links.block, (two,)), (Links.block, (again,))]


def test_layers_of_links_end_one_by_one() -> None:
    """A link is given back by the layer that took it."""
    both = [(1, 2), (3, 2)]
    assert standing(
        (Links.degrade, both, SLOW, "a"),
        (Links.degrade, both, LOSSY, "b"),
        (Links.restore, [(1, 2)], "a"),
        (Links.restore, both, "b"),
    ) == [(Links.degrade, ([(3, 2)], SLOW, "a"))]


def test_a_clock_is_where_its_layers_last_put_it() -> None:
    """Layers that move have one place; each goes alone."""
    assert standing(
        (Clocks.skew, 2, "drift", 10.0),
        (Clocks.skew, 2, "jump", 60_000.0),
        (Clocks.skew, 2, "drift", 20.0),
        (Clocks.unskew, 2, "jump"),
    ) == [(Clocks.skew, (2, "drift", 20.0))]


def test_the_last_command_is_that_of_the_next_start() -> None:
    """A slow and a full disk are so again; what only looks or does not last leaves nothing."""
    assert standing(
        (Machine.set_command, 2, ("old",)),
        (Machine.set_command, 2, ("new",)),
        (Disks.fill, 2),
        (Disks.freeze, 2),
        (Machine.start, 2),
        (Disks.drain, 2),
        (Links.dropped, Cut(1, 2)),
    ) == [(Machine.set_command, (2, ("new",)))]


def test_arguments_by_name_are_kept() -> None:
    """A limit's are."""
    made = CallsInForce()
    made.update(Call(Disks.limit, (2,), {"bytes_per_s": 5, "operations_per_s": 0}))
    [call] = made.calls()
    assert call.kwargs == {"bytes_per_s": 5, "operations_per_s": 0}
    made.update(Call(Disks.unlimit, (2,)))
    assert made.calls() == ()
