"""Netlink messages to the kernel, and its answers."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.targets.linux.network import firewall, namespaces
from harness.targets.linux.network.firewall import Rule
from harness.targets.linux.packets.netlink import (
    NETFILTER,
    Message,
    Netlink,
    attribute,
    attributes,
    nested,
    nfgen,
)
from tests.support.require import require
from tests.support.targets.machine import local_target

ADDRESS = "198.18.0.1"


@given(st.lists(st.tuples(st.integers(1, 100), st.binary(max_size=50))))
def test_attributes_come_back_as_they_were_written(written: list[tuple[int, bytes]]) -> None:
    """Whatever their lengths, and whatever stands around them."""
    data = b"".join(attribute(number, value) for number, value in written)
    assert list(attributes(data)) == written
    assert list(attributes(nested(7, data))) == [(7, data)]


def test_a_torn_buffer_ends_the_attributes() -> None:
    """Rubbish after them is no attribute, and no endless loop."""
    whole = attribute(1, 5)
    assert list(attributes(whole + b"\x01\x00")) == [(1, b"\0\0\0\5")]
    assert list(attributes(whole + bytes(8))) == [(1, b"\0\0\0\5")]


def test_a_transaction_is_made_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """One refused rule, and none of the others is there."""
    require("root", "netns")
    good = firewall.count("good", ADDRESS)
    bad = Rule(chain="no such chain", name="bad", expressions=good.expressions)
    with local_target(tmp_path) as target:
        place = target.network.namespace(1), target.network.name
        with pytest.raises(FileNotFoundError):
            firewall.change(*place, add=[good, bad])
        assert firewall.counted(*place) == {}
        firewall.change(*place, add=[good, firewall.lose("other", 0.5, ADDRESS)])
        firewall.change(*place, add=[good], remove=["other", "never there"])
        assert firewall.counted(*place) == {"good": 0}


def test_what_comes_by_itself_is_kept_while_an_answer_is_awaited(tmp_path: Path) -> None:
    """A dump that nobody read yet is not lost over a request."""
    require("root", "netns")
    with local_target(tmp_path) as target, namespaces.entered(target.network.namespace(1)):
        with Netlink(NETFILTER) as netlink:
            get_tables = Message(10 << 8 | 1, 0x300, nfgen(2))
            netlink.post([get_tables])
            netlink.transaction(firewall.NFTABLES, firewall.preparation("probe"))
            names = [dict(attributes(body[4:])).get(1) for _kind, body in netlink.pending(10)]
        assert target.network.name.encode() + b"\0" in names
