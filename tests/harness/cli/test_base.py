"""What commands say."""

from harness.cli.base import counted


def test_what_was_removed_is_counted_by_kind() -> None:
    """A line that can be read, however many machines there were; kinds as they came."""
    things = ["process 7", "process 8", "interface up", "volume /a", "volume /b c"]
    assert counted(things) == "2 processes, 1 interface, 2 volumes"
    assert counted([]) == "nothing"
