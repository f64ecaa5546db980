"""Faults of other packages."""

from importlib.metadata import EntryPoint

from nemesis.faults.plugged import GROUP, collect


def point(name: str, value: str) -> EntryPoint:
    """An entry point of a package that is installed."""
    return EntryPoint(name, value, GROUP)


def test_fault_and_tuple_of_faults_are_loaded() -> None:
    """In the order of the entry points' names."""
    one = point("b", "tests.support.nemesis.plugged:ONE")
    several = point("a", "tests.support.nemesis.plugged:SEVERAL")
    found = collect([one, several], {"kill"})
    assert [fault.name for fault in found.faults] == ["first", "second", "one"]
    assert found.problems == ()


def test_what_cannot_be_used_is_left_out_with_its_reason() -> None:
    """A module that is missing, something that is no fault, and a name that is taken."""
    points = [
        point("missing", "no_such_module:FAULT"),
        point("number", "tests.support.nemesis.plugged:NUMBER"),
        point("taken", "tests.support.nemesis.plugged:ONE"),
        point("well", "tests.support.nemesis.plugged:SEVERAL"),
    ]
    found = collect(points, {"kill", "one"})
    assert [fault.name for fault in found.faults] == ["first", "second"]
    missing, number, taken = found.problems
    assert "entry point missing of package ?" in missing
    assert "No module named 'no_such_module'" in missing
    assert "3, which is no Fault" in number
    assert "there is another fault one; give it another name" in taken
