"""One edge of a dependency graph, for people."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkers.elle.links import RW, WR, WW


class Dependency(StrEnum):
    """Why one transaction came before another; see `links`."""

    WW = "ww"
    WR = "wr"
    RW = "rw"


DEPENDENCIES: Final = {WW: Dependency.WW, WR: Dependency.WR, RW: Dependency.RW}
"""By the kinds of `links`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One dependency: two transactions, the partition, and the values."""

    src: int
    dst: int
    kind: Dependency
    topic: str
    partition: int
    value: int
    other_value: int

    @property
    def text(self) -> str:
        """Such as `3 wrote 7 to orders-0 before 5 wrote 9`."""
        where = f"{self.topic}-{self.partition}"
        match self.kind:
            case Dependency.WW:
                return f"{self.src} wrote {self.value} to {where} before {self.dst} wrote " + str(
                    self.other_value
                )
            case Dependency.WR:
                return f"{self.src} wrote {self.value} to {where}, which {self.dst} read last"
            case Dependency.RW:
                return (
                    f"{self.src} read {where} up to {self.value}, before {self.dst} wrote "
                    f"{self.other_value}"
                )
