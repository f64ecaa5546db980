"""nftables rules for arriving packets: cuts, random losses, duplicates and held packets, counted.

Every machine has one table, named after the run, with chains on the input hook: `arriving` drops
the packets of cuts, `losing` loses and duplicates shares of the others, and `waiting` hands the
packets of a slow link to its packet holder. Rules match only IPv4 packets, so that neighbours still
resolve, as on a network with broken routes rather than broken cables. A rule's comment is its name.
All changes of a machine are one transaction of the kernel. The table ends with its namespace.

The chains are made once, because the kernel drops every held packet when a chain is added or
removed. Some ports must stay reachable, such as the port of the SSH connection that controls a
machine. They are spared: an earlier chain marks their packets, and all rules skip marked packets.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.targets.linux.network import namespaces
from harness.targets.linux.packets.netlink import (
    APPEND,
    CREATE,
    NETFILTER,
    Message,
    Netlink,
    attribute,
    attributes,
    nested,
    nfgen,
)
from nemesis.hosts import Cut

SPARED: Final = "sparing"
CUTS: Final = "arriving"
LOSSES: Final = "losing"
HOLDS: Final = "waiting"

NFTABLES: Final = 10
_TABLE, _DELETE_TABLE, _CHAIN, _RULE, _GET_RULES, _DELETE_RULE = (
    NFTABLES << 8 | n for n in (0, 2, 3, 6, 7, 8)
)
_IPV4 = nfgen(socket.AF_INET)
_INPUT_HOOK = 1
_DROP, _ACCEPT = 0, 1
_EQUAL, _UNEQUAL, _LESS, _AT_MOST, _MORE = 0, 1, 2, 3, 4
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_VERDICT_REGISTER, _REGISTER, _OTHER_REGISTER = 0, 1, 2
_LONGEST_BARE_SEGMENT = 120
"""Bytes of the longest TCP segment without data: IP and TCP headers with all their options."""
_PUSH = 0x08
_META_MARK, _META_IIFNAME = 3, 6
_SPARED_MARK = struct.pack("=I", 0x68770001)
_SHARES = 1 << 30
_QUEUE_BYPASS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a chain. Rules with the same name are counted and removed as one."""

    chain: str
    name: str
    expressions: bytes
    first: bool = False
    """Insert it before all other rules, so that it counts packets that a wider rule drops."""


def prepare(netns: Path, table: str, spared: Iterable[int] = ()) -> None:
    """Make the table with its chains; no rule will match the spared TCP ports, at either end.

    Raises OSError, also where the kernel lacks nftables.
    """
    with entered(netns) as netlink:
        netlink.transaction(NFTABLES, preparation(table, spared))


def preparation(table: str, spared: Iterable[int] = ()) -> list[Message]:
    """Return the transaction that makes a table and its chains."""
    chains = ((SPARED, -10), (CUTS, 0), (LOSSES, 10), (HOLDS, 20))
    return [
        Message(_TABLE, CREATE, _IPV4 + attribute(1, table)),
        *(_chain(table, name, priority) for name, priority in chains),
        *(addition(table, spare(port, at)) for port in sorted(set(spared)) for at in (0, 2)),
    ]


def remove(netns: Path, table: str) -> bool:
    """Remove a table with its chains and rules. Return False when there is no such table."""
    with entered(netns) as netlink:
        try:
            netlink.transaction(NFTABLES, [Message(_DELETE_TABLE, 0, _IPV4 + attribute(1, table))])
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
    return True


def change(netns: Path, table: str, add: Iterable[Rule] = (), remove: Iterable[str] = ()) -> None:
    """Add the rules whose names are new and remove the named ones, in one transaction."""
    with entered(netns) as netlink:
        have = list(_rules(netlink, table))
        names, going = {rule.name for rule in have}, set(remove)
        messages = [addition(table, rule) for rule in add if rule.name not in names]
        messages += [_removal(table, rule) for rule in have if rule.name in going]
        netlink.transaction(NFTABLES, messages)


def counted(netns: Path, table: str) -> Mapping[str, int]:
    """Return the packet count of every rule, by the rule's name."""
    counts: dict[str, int] = {}
    with entered(netns) as netlink:
        for rule in _rules(netlink, table):
            counts[rule.name] = counts.get(rule.name, 0) + rule.packets
    return counts


@contextmanager
def entered(netns: Path) -> Iterator[Netlink]:
    """Open a netlink socket in a namespace; the socket stays in it, whichever thread uses it."""
    with namespaces.entered(netns):
        netlink = Netlink(NETFILTER)
    with netlink:
        yield netlink


# -- rules


def spare(port: int, at: int) -> Rule:
    """Mark packets from the TCP port (at 0) or to it (at 2); all other rules skip the mark."""
    mark = _expression(
        "immediate", attribute(1, _REGISTER), nested(2, attribute(1, _SPARED_MARK))
    ) + _expression("meta", attribute(2, _META_MARK), attribute(3, _REGISTER))
    return Rule(chain=SPARED, name=f"spared {port} at {at}", expressions=_port(port, at=at) + mark)


def cut(name: str, what: Cut, source: str) -> list[Rule]:
    """Drop the packets of a cut that arrive from the address `source`."""
    if what.answers:
        matches = [_port(what.port, at=0) + part for part in _WITH_DATA]
    elif what.port:
        matches = [_port(what.port, at=0), _port(what.port, at=2)]
    else:
        matches = [b""]
    return [
        Rule(
            chain=CUTS,
            name=name,
            expressions=_from(source) + match + _COUNTER + _verdict(_DROP),
            first=bool(what.port or what.layer),
        )
        for match in matches
    ]


def requests(name: str, port: int, source: str) -> list[Rule]:
    """Count packets with data that arrive from `source` for the port."""
    return [
        Rule(
            chain=CUTS,
            name=name,
            expressions=_from(source) + _port(port, at=2) + part + _COUNTER,
            first=True,
        )
        for part in _WITH_DATA
    ]


def count(name: str, source: str) -> Rule:
    """Count every packet that arrives from `source`; duplicates are not counted."""
    expressions = _from(source) + _OUTSIDE + _COUNTER
    return Rule(chain=LOSSES, name=name, expressions=expressions, first=True)


def lose(name: str, share: float, source: str) -> Rule:
    """Drop a random share of the packets from `source`."""
    return Rule(
        chain=LOSSES,
        name=name,
        expressions=_from(source) + _share(share) + _COUNTER + _verdict(_DROP),
    )


def double(name: str, share: float, source: str, here: str) -> Rule:
    """Duplicate a random share of the packets from `source`; `here` is this machine's address.

    The duplicate arrives over the loopback interface and is not duplicated again.
    """
    address = nested(2, attribute(1, socket.inet_aton(here)))
    again = _expression("immediate", attribute(1, _REGISTER), address)
    again += _expression("dup", attribute(1, _REGISTER))
    return Rule(
        chain=LOSSES,
        name=name,
        expressions=_from(source) + _OUTSIDE + _share(share) + _COUNTER + again,
    )


def hold(name: str, queue: int, source: str) -> Rule:
    """Hand packets from `source` to the queue's packet holder; without a holder they pass.

    The rule uses the target of iptables (nft_compat), since some kernels lack nftables' own one.
    """
    info = struct.pack("=HHHH", queue, 1, _QUEUE_BYPASS, 0)
    target = _expression("target", attribute(1, "NFQUEUE"), attribute(2, 3), attribute(3, info))
    return Rule(chain=HOLDS, name=name, expressions=_from(source) + _COUNTER + target)


# -- the kernel's encoding of rules (linux/netfilter/nf_tables.h)


def _expression(name: str, *parts: bytes) -> bytes:
    return nested(1, attribute(1, name), nested(2, *parts))


def _load(base: int, offset: int, size: int) -> bytes:
    place = ((1, _REGISTER), (2, base), (3, offset), (4, size))
    return _expression("payload", *(attribute(number, value) for number, value in place))


def _compare(how: int, value: bytes) -> bytes:
    parts = attribute(1, _REGISTER) + attribute(2, how) + nested(3, attribute(1, value))
    return _expression("cmp", parts)


def _verdict(code: int) -> bytes:
    return _expression(
        "immediate", attribute(1, _VERDICT_REGISTER), nested(2, nested(2, attribute(1, code)))
    )


def _from(source: str) -> bytes:
    address = _load(_NETWORK_HEADER, 12, 4) + _compare(_EQUAL, socket.inet_aton(source))
    return _UNSPARED + address


def _port(port: int, *, at: int) -> bytes:
    """Match a TCP port: the source port is at 0, the destination port at 2."""
    protocol = _load(_NETWORK_HEADER, 9, 1) + _compare(_EQUAL, bytes([socket.IPPROTO_TCP]))
    return protocol + _load(_TRANSPORT_HEADER, at, 2) + _compare(_EQUAL, struct.pack(">H", port))


def _share(share: float) -> bytes:
    parts = ((1, _REGISTER), (2, _SHARES), (3, 1))
    drawn = _expression("numgen", *(attribute(number, value) for number, value in parts))
    # numgen draws in the machine's byte order, `cmp` compares in network byte order.
    order = ((1, _REGISTER), (2, _REGISTER), (3, 1), (4, 4), (5, 4))
    drawn += _expression("byteorder", *(attribute(number, value) for number, value in order))
    return drawn + _compare(_LESS, struct.pack(">I", round(share * _SHARES)))


_UNSPARED = _expression("meta", attribute(1, _REGISTER), attribute(2, _META_MARK)) + _compare(
    _UNEQUAL, _SPARED_MARK
)
_OUTSIDE = _expression("meta", attribute(1, _REGISTER), attribute(2, _META_IIFNAME)) + _compare(
    _UNEQUAL, b"lo".ljust(16, b"\0")
)
_COUNTER = _expression("counter", attribute(1, bytes(8)), attribute(2, bytes(8)))
_LONG = _load(_NETWORK_HEADER, 2, 2) + _compare(_MORE, struct.pack(">H", _LONGEST_BARE_SEGMENT))
_PUSHED = (
    _load(_NETWORK_HEADER, 2, 2)
    + _compare(_AT_MOST, struct.pack(">H", _LONGEST_BARE_SEGMENT))
    + _load(_TRANSPORT_HEADER, 13, 1)
    + _expression(
        "bitwise",
        *(attribute(1, _REGISTER), attribute(2, _REGISTER), attribute(3, 1)),
        *(nested(4, attribute(1, bytes([_PUSH]))), nested(5, attribute(1, b"\0"))),
    )
    + _compare(_EQUAL, bytes([_PUSH]))
)
_WITH_DATA = (_LONG, _PUSHED)
"""A TCP segment with data is longer than every segment without, or has PUSH set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    chain: bytes
    handle: bytes
    name: str
    packets: int


def _chain(table: str, name: str, priority: int) -> Message:
    hook = nested(4, attribute(1, _INPUT_HOOK), attribute(2, priority))
    body = attribute(1, table) + attribute(3, name) + hook
    return Message(_CHAIN, CREATE, _IPV4 + body + attribute(5, _ACCEPT) + attribute(7, "filter"))


def addition(table: str, rule: Rule) -> Message:
    """Return the message that adds a rule."""
    text = rule.name.encode() + b"\0"
    comment = bytes([0, len(text)]) + text
    place = attribute(1, table) + attribute(2, rule.chain)
    body = place + nested(4, rule.expressions) + attribute(7, comment)
    return Message(_RULE, CREATE if rule.first else CREATE | APPEND, _IPV4 + body)


def _removal(table: str, rule: _Found) -> Message:
    place = attribute(1, table) + attribute(2, rule.chain) + attribute(3, rule.handle)
    return Message(_DELETE_RULE, 0, _IPV4 + place)


def _rules(netlink: Netlink, table: str) -> Iterator[_Found]:
    for body in netlink.dump(Message(_GET_RULES, 0, _IPV4 + attribute(1, table))):
        found = dict(attributes(body[4:]))
        if (comment := found.get(7)) is not None:
            yield _Found(
                chain=found[2],
                handle=found[3],
                name=comment[2:].rstrip(b"\0").decode(),
                packets=_packets(found.get(4, b"")),
            )


def _packets(expressions: bytes) -> int:
    for _number, expression in attributes(expressions):
        parts = dict(attributes(expression))
        if parts[1] == b"counter\0":
            return int.from_bytes(dict(attributes(parts[2]))[2], "big")
    return 0
