"""Cuts in one direction: dropped packets are counted, and pass again after the heal."""

import socket
from pathlib import Path

import pytest

from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.linux.network import namespaces
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut
from tests.support.require import require
from tests.support.targets.machine import local_target

_PORT = 9092


def udp(target: LocalTarget, machine: int) -> socket.socket:
    """A datagram socket on a machine, which waits for up to a minute."""
    with namespaces.entered(target.network.namespace(machine)):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((target.address(machine), _PORT))
    made.settimeout(60)
    return made


def send(target: LocalTarget, sender: socket.socket, dst: int, text: bytes) -> None:
    """Send one datagram to a machine."""
    sender.sendto(text, (target.address(dst), _PORT))


@pytest.mark.parametrize("dst", [2, CLIENTS])
def test_a_cut_drops_one_direction_and_counts_the_packets(tmp_path: Path, dst: int) -> None:
    """Packets of the other direction arrive; the heal ends the cut."""
    require("root", "netns")
    with (
        local_target(tmp_path, nodes=2) as target,
        udp(target, 1) as one,
        udp(target, dst) as other,
    ):
        send(target, one, dst, b"before")
        assert other.recv(100) == b"before"
        target.links.block(Cut(1, dst))
        assert target.links.dropped(Cut(1, dst)) == 0
        for _ in range(3):
            send(target, one, dst, b"dropped")
        send(target, other, 1, b"the other way")
        assert one.recv(100) == b"the other way"
        assert target.links.dropped(Cut(1, dst)) == 3
        assert target.links.dropped(Cut(dst, 1)) is None
        target.links.unblock(Cut(1, dst))
        send(target, one, dst, b"after")
        assert other.recv(100) == b"after", "what was dropped must not arrive later"
        assert target.links.dropped(Cut(1, dst)) is None


def test_blocking_or_healing_a_second_time_changes_nothing(tmp_path: Path) -> None:
    """Cuts of other links stay."""
    require("root", "netns")
    with (
        local_target(tmp_path, nodes=3) as target,
        udp(target, 1) as one,
        udp(target, 2) as two,
        udp(target, 3) as three,
    ):
        target.links.block(Cut(1, 2))
        target.links.block(Cut(1, 2))
        target.links.block(Cut(3, 2))
        target.links.unblock(Cut(1, 2))
        send(target, three, 2, b"dropped")
        send(target, one, 2, b"heard")
        assert two.recv(100) == b"heard"
        target.links.unblock(Cut(1, 2))
        assert target.links.dropped(Cut(3, 2)) == 1
        target.links.unblock(Cut(3, 2))


def test_a_cut_of_an_unknown_machine_is_refused(tmp_path: Path) -> None:
    """A wrong number is an error, not a rule that never matches."""
    require("root", "netns")
    with local_target(tmp_path) as target, pytest.raises(UnknownNode):
        target.links.block(Cut(7, 1))
