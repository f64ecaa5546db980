"""The topics in consumers' subscriptions."""

import pytest

from nodes.coordinators.groups.classic.subscriptions import subscribed_topics

ONE = bytes.fromhex("0003 00000001 0001 61 ffffffff 00000000 ffffffff ffff")
TWO = bytes.fromhex("0000 00000002 0001 61 0002 c3a9 ffffffff")


def test_the_topics_of_all_members_count() -> None:
    """Of every version: the topics come first."""
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([ONE, TWO]) == {"a", "é"}


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "0000",
        "0000 ffffffff",
        "0000 7fffffff",
        "0000 00000001 0005 61",
        "0000 00000001 ffff",
        "0000 00000001 0001 ff",
    ],
)
def test_other_metadata_says_nothing(damaged: str) -> None:
    """One member that cannot be read makes the topics unknown."""
    assert subscribed_topics([ONE, bytes.fromhex(damaged)]) is None
