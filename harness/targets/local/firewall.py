"""Packets dropped on arrival, one way: one nftables rule per blocked source, with its counter.

Every machine has one table, named after the run, with one chain on the input hook. Blocking adds
`ip saddr SOURCE counter drop` to it. Only IPv4 packets are dropped: neighbours still resolve, as
they do on a network whose routes, not whose wires, are broken. The counter is the proof that the
fault did something. The table goes with its namespace.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.targets.local import namespaces

_CHAIN = "arriving"
_IPV4 = 1  # NFPROTO_IPV4
_DROP, _ACCEPT = 0, 1


def prepare(netns: Path, table: str) -> None:
    """Make the empty table. Raises NetlinkError (also where nftables is missing)."""
    with _nftables(netns) as nft:
        nft.table("add", name=table)
        nft.chain("add", table=table, name=_CHAIN, hook="input", type="filter", policy=_ACCEPT)


def block(netns: Path, table: str, source: str, port: int = 0) -> None:
    """Drop what arrives from `source` from now on; nothing changes where that is so already."""
    with _nftables(netns) as nft:
        if _find(nft, table, source) is None:
            counter = [genex("counter", {"bytes": 0, "packets": 0})]
            expressions = (ipv4addr(src=source), counter, verdict(code=_DROP))
            nft.rule("add", table=table, chain=_CHAIN, expressions=expressions)


def unblock(netns: Path, table: str, source: str, port: int = 0) -> None:
    """Let pass what arrives from `source`; nothing happens where it does."""
    with _nftables(netns) as nft:
        if (rule := _find(nft, table, source)) is not None:
            nft.rule("del", table=table, chain=_CHAIN, handle=rule[0])


def dropped(netns: Path, table: str, source: str, port: int = 0) -> int | None:
    """Packets from `source` that the block in force has dropped; None where there is none."""
    with _nftables(netns) as nft:
        rule = _find(nft, table, source)
    return None if rule is None else rule[1]


@contextmanager
def _nftables(netns: Path) -> Iterator[NFTables]:
    # A socket belongs to the namespace it was made in, whoever uses it later.
    with namespaces.entered(netns):
        nft = NFTables(nfgen_family=_IPV4)
    try:
        yield nft
    finally:
        nft.close()


def _find(nft: NFTables, table: str, source: str) -> tuple[int, int] | None:
    """(handle, packets) of the rule that drops `source`."""
    wanted = socket.inet_aton(source)
    for rule in nft.get_rules():
        if rule.get_attr("NFTA_RULE_TABLE") != table:
            continue
        address, packets = None, 0
        for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS"):
            data = expression.get_attr("NFTA_EXPR_DATA")
            match expression.get_attr("NFTA_EXPR_NAME"):
                case "cmp":
                    address = data.get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE")
                case "counter":
                    packets = data.get_attr("NFTA_COUNTER_PACKETS")
        if address == wanted:
            return rule.get_attr("NFTA_RULE_HANDLE"), packets
    return None
