"""The common parameters of network faults: which links, which direction, how much."""

from collections.abc import Callable, Sequence
from typing import Final

from nemesis import shapes
from nemesis.faults.fault import Option, Params
from nemesis.hosts import CLIENTS
from nemesis.shapes import Grudge

PORTS: Final = {"data": 9092, "controller": 9093}
"""The ports: `data` for clients and other brokers, `controller` for the metadata quorum."""


def choice(*texts: str) -> Callable[[str], str]:
    """A parser of one of the texts."""

    def read(text: str) -> str:
        if text not in texts:
            raise ValueError(f"it is one of {', '.join(texts)}")
        return text

    return read


def number(low: float, high: float, unit: str) -> Callable[[str], float]:
    """A parser of a number from `low` to `high`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ValueError(f"it is a number from {low:g} to {high:g} ({unit})")
        return value

    return read


def read_port(text: str) -> int:
    """A TCP port by number or by name (see PORTS). Raises ValueError."""
    if text in PORTS:
        return PORTS[text]
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16:
        return int(text)
    raise ValueError(f"it is {', '.join(PORTS)} or a number from 1 to 65535")


DIRECTION: Final = Option(
    name="direction",
    default="both",
    about="in (packets that arrive at the nodes), out (packets that they send) or both",
    read=choice("in", "out", "both"),
)


def peers(default: str) -> Option:
    """The option that chooses the other ends of the nodes' links."""
    return Option(
        name="peers",
        default=default,
        about="the other ends: nodes (all others), clients, or all of these",
        read=choice("nodes", "clients", "all"),
    )


PORT: Final = Option(
    name="port", default="data", about="data, controller, or a TCP port's number", read=read_port
)


def chosen_links(selected: Sequence[int], nodes: Sequence[int], params: Params) -> Grudge:
    """The links of the selected nodes that the parameters `direction` and `peers` choose."""
    peer_kind = params.values.get("peers", "nodes")
    others = [
        *(nodes if peer_kind != "clients" else ()),
        *((CLIENTS,) if peer_kind != "nodes" else ()),
    ]
    direction = params.values.get("direction", "both")
    return shapes.touching(selected, others, inward=direction != "out", outward=direction != "in")
