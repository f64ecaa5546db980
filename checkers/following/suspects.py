"""What a suspect is, and the bounded maps of the state that finds suspects."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Row: TypeAlias = Mapping[str, Any]
"""A row of a history by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A suspect: values, the record at an offset, or (evidence) a complete finding.

    op: the operation of an element of a program's output, or the last pass that counts. key: of a
    compacted topic. group, txn, transactional_id: of which further rows tell whether it is an
    anomaly.
    """

    kind: str
    topic: str
    partition: int
    values: tuple[int, ...] = ()
    offset: int | None = None
    evidence: Row | None = None
    op: int | None = None
    key: int | None = None
    group: str | None = None
    txn: int | None = None
    transactional_id: str | None = None

    def about(
        self,
        *,
        group: str | None = None,
        txn: int | None = None,
        transactional_id: str | None = None,
    ) -> "Suspect":
        """The same suspect, with whatever its further rows have in common."""
        return replace(self, group=group, txn=txn, transactional_id=transactional_id)


class Recent(OrderedDict[K, V], Generic[K, V]):
    """The entries that were set last, at most `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            super().__setitem__(key, value)
            self.move_to_end(key)
            return
        super().__setitem__(key, value)
        if len(self) > self._limit:
            self.popitem(last=False)


def finding(kind: str, evidence: Row) -> Suspect:
    """A suspect that is a complete finding."""
    at = {"topic": evidence["topic"], "partition": evidence["partition"]}
    return Suspect(kind=kind, evidence=evidence, **at)


def of_values(kind: str, row: Row, *values: int) -> Suspect:
    """A suspect that rows about these values decide, in the partition of `row`."""
    return Suspect(kind=kind, topic=row["topic"], partition=row["partition"], values=values)


def of_offset(kind: str, row: Row, offset: int | None = None) -> Suspect:
    """A suspect that rows about one offset decide (default: that of `row`)."""
    at = row["offset"] if offset is None else offset
    return Suspect(kind=kind, topic=row["topic"], partition=row["partition"], offset=at)
