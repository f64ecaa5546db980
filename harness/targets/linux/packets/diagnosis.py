"""Ending TCP connections as the kernel does it for an administrator: SOCK_DESTROY (sock_diag(7)).

The peer is sent a reset, the program here finds its connection aborted. The kernel must have been
built with CONFIG_INET_DIAG_DESTROY, and the caller be an administrator of the network namespace.
"""

import errno
import socket
import struct
from collections.abc import Collection, Iterator
from typing import Final

from harness.targets.linux.packets.netlink import SOCK_DIAG, Message, Netlink

_BY_FAMILY: Final = 20
_DESTROY: Final = 21
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_MAPPED = bytes(10) + b"\xff\xff"
# ESTABLISHED, SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
_CONNECTED: Final = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
_REQUEST = struct.Struct("=BBBBI48s")
"""struct inet_diag_req_v2: family, protocol, extensions, padding, states, who."""
_WHO = slice(4, 52)
"""struct inet_diag_sockid in an answer: ports, addresses, interface, cookie."""


def connections(netlink: Netlink, peer: str) -> Iterator[tuple[int, bytes]]:
    """(family, who) of each TCP connection of this namespace with the IPv4 address `peer`."""
    address = socket.inet_aton(peer)
    for family in _FAMILIES:
        everybody = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _CONNECTED, bytes(48))
        wanted = {socket.AF_INET: address, socket.AF_INET6: _MAPPED + address}[family]
        for answer in netlink.dump(Message(_BY_FAMILY, 0, everybody)):
            who = answer[_WHO]
            if who[20 : 20 + len(wanted)] == wanted:
                yield family, who


def destroy(netlink: Netlink, family: int, who: bytes) -> bool:
    """End one connection. False when it ended by itself first. Raises OSError."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _CONNECTED, who)
    try:
        netlink.request(Message(_DESTROY, 0, body))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def reset(peer: str, spared: Collection[int] = ()) -> int:
    """End all connections of the thread's namespace with `peer`, but those with a `spared` port at
    either end; returns how many. Raises OSError.
    """
    with Netlink(SOCK_DIAG) as netlink:
        found = [
            (family, who)
            for family, who in connections(netlink, peer)
            if not {*struct.unpack_from(">HH", who)} & {*spared}
        ]
        return sum(destroy(netlink, family, who) for family, who in found)


def probe() -> None:
    """Ask for the end of a connection that cannot be there. Raises OSError where none can."""
    with Netlink(SOCK_DIAG) as netlink:
        destroy(netlink, socket.AF_INET, struct.pack(">HH", 1, 1) + bytes(44))
