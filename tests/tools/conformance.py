"""Which foreign client does what on a cluster of ours, and which test shows it.

`python -m tests.tools.conformance` prints the table as it stands in docs/clients.md. A cell is
either the test that proves it, or the reason why this client cannot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")
"""confluent-kafka is librdkafka of today; kcat is Debian's, on a librdkafka years older."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A test of this package: module (after test_foreign_) and function."""

    module: str
    test: str


@dataclass(frozen=True, slots=True)
class Cannot:
    """Not this client; why."""

    reason: str


Cell = Shown | Cannot

NO_KCAT_ADMIN: Final = Cannot("kcat has no administrative commands")
NO_KCAT_ASSIGN: Final = Cannot("kcat names a group only to join it")
NOT_IN_LIBRDKAFKA: Final = Cannot("librdkafka has no such request")
NOT_IN_AIOKAFKA: Final = Cannot("aiokafka's administrative client has no such request")

_RD_TOPICS: Final = Shown("admin", "test_librdkafka_creates_grows_and_deletes")
_RD_CONFIGS: Final = Shown("admin", "test_librdkafka_configures_topics_and_brokers")
_RD_ELECTS: Final = Shown("admin", "test_librdkafka_elects_preferred_leaders")
_PY_ALL: Final = Shown("admin", "test_kafka_python_creates_configures_grows_describes_and_deletes")
_PY_MOVES: Final = Shown("admin", "test_kafka_python_reassigns_and_cancels")
_AIO_ALL: Final = Shown("admin", "test_aiokafka_creates_configures_grows_and_deletes")
_DYING: Final = Shown("failures", "test_metadata_while_a_broker_dies")


def _everyone(module: str, test: str) -> Mapping[str, Cell]:
    return {client: Shown(module, test) for client in CLIENTS}


def _cells(*cells: Cell) -> Mapping[str, Cell]:
    return dict(zip(CLIENTS, cells, strict=True))


TABLE: Final[Mapping[str, Mapping[str, Cell]]] = {
    "acks 0, 1 and all": _everyone("clients", "test_every_acknowledgement_mode"),
    "idempotent producer": _everyone("clients", "test_idempotent_producers"),
    "none, gzip, snappy, lz4, zstd; read by all the others": _everyone(
        "clients", "test_what_one_client_wrote_all_read"
    ),
    "offsets: earliest, latest, by time": _everyone("clients", "test_listing_offsets"),
    "names a group, is assigned partitions, has no position: reads": _cells(
        Shown("groups", "test_librdkafka_reads_what_it_was_assigned"),
        Shown("groups", "test_kafka_python_reads_what_it_was_assigned"),
        Shown("groups", "test_aiokafka_reads_what_it_was_assigned"),
        NO_KCAT_ASSIGN,
    ),
    "subscribes as a group: a clear error at once": _cells(
        Shown("groups", "test_librdkafka_may_not_subscribe"),
        Shown("groups", "test_kafka_python_may_not_subscribe"),
        Shown("groups", "test_aiokafka_may_not_subscribe"),
        Shown("groups", "test_kcat_has_neither"),
    ),
    "transactions: a clear error at once": _cells(
        Shown("groups", "test_librdkafka_has_no_transactions"),
        Shown("groups", "test_kafka_python_has_no_transactions"),
        Shown("groups", "test_aiokafka_has_no_transactions"),
        Shown("groups", "test_kcat_has_neither"),
    ),
    "create topics": _cells(_RD_TOPICS, _PY_ALL, _AIO_ALL, NO_KCAT_ADMIN),
    "describe topics and brokers": _cells(_RD_TOPICS, _PY_ALL, _AIO_ALL, _DYING),
    "alter and describe configurations": _cells(_RD_CONFIGS, _PY_ALL, _AIO_ALL, NO_KCAT_ADMIN),
    "create partitions": _cells(_RD_TOPICS, _PY_ALL, _AIO_ALL, NO_KCAT_ADMIN),
    "delete topics": _cells(_RD_TOPICS, _PY_ALL, _AIO_ALL, NO_KCAT_ADMIN),
    "elect leaders": _cells(_RD_ELECTS, _PY_ALL, NOT_IN_AIOKAFKA, NO_KCAT_ADMIN),
    "reassign partitions, list, cancel": _cells(
        NOT_IN_LIBRDKAFKA, _PY_MOVES, NOT_IN_AIOKAFKA, NO_KCAT_ADMIN
    ),
    "metadata and writing while a broker dies and returns": _everyone(
        "failures", "test_metadata_while_a_broker_dies"
    ),
    "reading from the follower in the reader's rack": _everyone(
        "failures", "test_reading_from_a_follower"
    ),
}
"""What can be done, and for each client how that is known."""


def markdown() -> str:
    """The table, and below it why not."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "| | " + " | ".join(CLIENTS) + " |"
    yield "|---" * (len(CLIENTS) + 1) + "|"
    reasons: list[str] = []
    for what, cells in TABLE.items():
        shown = []
        for client in CLIENTS:
            cell = cells[client]
            if isinstance(cell, Shown):
                shown.append("yes")
                continue
            if cell.reason not in reasons:
                reasons.append(cell.reason)
            shown.append(f"no ({reasons.index(cell.reason) + 1})")
        yield f"| {what} | " + " | ".join(shown) + " |"
    yield ""
    for number, reason in enumerate(reasons, start=1):
        yield f"{number}. {reason}"


if __name__ == "__main__":
    print(markdown(), end="")
