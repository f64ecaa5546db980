"""Messages that several commands print."""

from harness.cli.base import count_by_kind


def test_removed_things_are_counted_by_kind() -> None:
    """The kinds keep their order; a long list becomes one readable line."""
    things = ["process 7", "process 8", "interface up", "volume /a", "volume /b c"]
    assert count_by_kind(things) == "2 processes, 1 interface, 2 volumes"
    assert count_by_kind([]) == "nothing"
