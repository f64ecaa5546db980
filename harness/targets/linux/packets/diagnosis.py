"""Reset TCP connections through the kernel: SOCK_DESTROY (sock_diag(7)).

The kernel sends a reset to the peer and aborts the connection of the local program. The kernel must
be built with CONFIG_INET_DIAG_DESTROY, and the caller needs CAP_NET_ADMIN in the network namespace.
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
"""struct inet_diag_req_v2: family, protocol, extensions, padding, states, socket id."""
_SOCKET_ID = slice(4, 52)
"""struct inet_diag_sockid in an answer: ports, addresses, interface, cookie."""


def connections(netlink: Netlink, peer: str) -> Iterator[tuple[int, bytes]]:
    """Yield (family, socket id) of each TCP connection of this namespace with the address `peer`.

    `peer` is an IPv4 address.
    """
    address = socket.inet_aton(peer)
    for family in _FAMILIES:
        all_sockets = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _CONNECTED, bytes(48))
        wanted = {socket.AF_INET: address, socket.AF_INET6: _MAPPED + address}[family]
        for answer in netlink.dump(Message(_BY_FAMILY, 0, all_sockets)):
            socket_id = answer[_SOCKET_ID]
            if socket_id[20 : 20 + len(wanted)] == wanted:
                yield family, socket_id


def destroy(netlink: Netlink, family: int, socket_id: bytes) -> bool:
    """Reset one connection. Return False when it has ended by itself already. Raises OSError."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _CONNECTED, socket_id)
    try:
        netlink.request(Message(_DESTROY, 0, body))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def reset(peer: str, spared: Collection[int] = ()) -> int:
    """Reset all connections of the thread's namespace with `peer` and return their number.

    Connections with a `spared` port at either end stay. Raises OSError.
    """
    with Netlink(SOCK_DIAG) as netlink:
        found = [
            (family, socket_id)
            for family, socket_id in connections(netlink, peer)
            if not {*struct.unpack_from(">HH", socket_id)} & {*spared}
        ]
        return sum(destroy(netlink, family, socket_id) for family, socket_id in found)


def probe() -> None:
    """Reset a connection that cannot exist. Raises OSError where the kernel resets none."""
    with Netlink(SOCK_DIAG) as netlink:
        destroy(netlink, socket.AF_INET, struct.pack(">HH", 1, 1) + bytes(44))
