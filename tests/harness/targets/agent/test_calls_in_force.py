"""The faults in force on a machine, as calls that make them again."""

from typing import Any

from harness.targets.agent.calls_in_force import Call, CallsInForce, Method
from harness.targets.agent.machine import Machine
from nemesis.hosts import Clocks, Cut, Disks, LinkQuality, Links

SLOW, LOSSY = LinkQuality(delay_ms=10), LinkQuality(lost=0.1)


def standing(*calls: tuple[Any, ...]) -> list[tuple[Method, tuple[Any, ...]]]:
    """What is in force after (method, argument, ...) of these."""
    made = CallsInForce()
    for method, *args in calls:
        made.update(Call(method, tuple(args)))
    return [(call.method, call.args) for call in made.calls()]


def test_each_cut_ends_separately() -> None:
    """Also cuts made by one call, and cuts of different layers; ending a cut twice is no error."""
    one, two, again = Cut(1, 2), Cut(3, 2), Cut(1, 2, layer="x")
    assert standing(
        (Links.block, one, two, again), (Links.block, one), (Links.unblock, one, Cut(9, 2))
    ) == [(Links.block, (two,)), (Links.block, (again,))]


def test_each_layer_of_a_link_ends_separately() -> None:
    """Restoring one layer of a link keeps the others."""
    both = [(1, 2), (3, 2)]
    assert standing(
        (Links.degrade, both, SLOW, "a"),
        (Links.degrade, both, LOSSY, "b"),
        (Links.restore, [(1, 2)], "a"),
        (Links.restore, both, "b"),
    ) == [(Links.degrade, ([(3, 2)], SLOW, "a"))]


def test_the_last_offset_of_each_clock_layer_is_in_force() -> None:
    """A second offset replaces the first one of the same layer."""
    assert standing(
        (Clocks.skew, 2, "drift", 10.0),
        (Clocks.skew, 2, "jump", 60_000.0),
        (Clocks.skew, 2, "drift", 20.0),
        (Clocks.unskew, 2, "jump"),
    ) == [(Clocks.skew, (2, "drift", 20.0))]


def test_the_last_command_and_the_disk_faults_are_in_force() -> None:
    """A slow and a full disk are; calls that only read leave nothing."""
    assert standing(
        (Machine.set_command, 2, ("old",)),
        (Machine.set_command, 2, ("new",)),
        (Disks.fill, 2),
        (Disks.freeze, 2),
        (Machine.start, 2),
        (Disks.drain, 2),
        (Links.dropped, Cut(1, 2)),
    ) == [(Machine.set_command, (2, ("new",)))]


def test_named_arguments_are_kept() -> None:
    """Such as those of a disk limit."""
    made = CallsInForce()
    made.update(Call(Disks.limit, (2,), {"bytes_per_s": 5, "operations_per_s": 0}))
    [call] = made.calls()
    assert call.kwargs == {"bytes_per_s": 5, "operations_per_s": 0}
    made.update(Call(Disks.unlimit, (2,)))
    assert made.calls() == ()
