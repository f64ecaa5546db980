"""The parameters that several network faults have: who is meant, which way, how much."""

from collections.abc import Callable, Sequence
from typing import Final

from nemesis import shapes
from nemesis.faults.fault import Option, Params
from nemesis.hosts import CLIENTS
from nemesis.shapes import Grudge

PORTS: Final = {"data": 9092, "controller": 9093}
"""Where brokers listen to clients and other brokers, and controllers to each other and brokers."""


def choice(*texts: str) -> Callable[[str], str]:
    """A reader of one of the texts."""

    def read(text: str) -> str:
        if text not in texts:
            raise ValueError(f"it is one of {', '.join(texts)}")
        return text

    return read


def number(low: float, high: float, unit: str) -> Callable[[str], float]:
    """A reader of a number from `low` to `high`."""

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
    """A TCP port by number or by what it is for. Raises ValueError."""
    if text in PORTS:
        return PORTS[text]
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16:
        return int(text)
    raise ValueError(f"it is {', '.join(PORTS)} or a number from 1 to 65535")


DIRECTION: Final = Option(
    name="direction",
    default="both",
    about="in (what arrives at the targets), out (what they send) or both",
    read=choice("in", "out", "both"),
)


def peers(default: str) -> Option:
    """With whom the targets' links are meant."""
    return Option(
        name="peers",
        default=default,
        about="the other ends: nodes (all others), clients, or all of these",
        read=choice("nodes", "clients", "all"),
    )


PORT: Final = Option(
    name="port", default="data", about="data, controller, or a TCP port's number", read=read_port
)


def meant(targets: Sequence[int], nodes: Sequence[int], params: Params) -> Grudge:
    """The links of the targets that the parameters `direction` and `peers`, if any, mean."""
    whom = params.values.get("peers", "nodes")
    others = [*(nodes if whom != "clients" else ()), *((CLIENTS,) if whom != "nodes" else ())]
    direction = params.values.get("direction", "both")
    return shapes.touching(targets, others, inward=direction != "out", outward=direction != "in")
