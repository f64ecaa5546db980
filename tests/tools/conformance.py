"""Which foreign client does what on a cluster of ours, and which test shows it.

`python -m tests.tools.conformance` prints the table as it stands in docs/clients.md. A cell is
the test that proves it, or the reason why this client cannot, or empty.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")
"""confluent-kafka is librdkafka of today; kcat is Debian's, on a librdkafka years older."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A test of tests/system: module (after test_foreign_) and function; and what it shows."""

    module: str
    test: str
    says: str = "yes"


@dataclass(frozen=True, slots=True)
class Cannot:
    """Not this client; why. `says`: what it cannot do, in the table."""

    reason: str
    says: str = "no"


@dataclass(frozen=True, slots=True)
class NotTested:
    """Nobody has tried it; the cell is empty."""


Cell = Shown | Cannot | NotTested

NO_KCAT_ADMIN: Final = Cannot("kcat has no administrative commands")
NO_KCAT_ASSIGN: Final = Cannot("kcat names a group only to join it")
NOT_IN_LIBRDKAFKA: Final = Cannot("librdkafka has no such request")
NOT_IN_AIOKAFKA: Final = Cannot("aiokafka's administrative client has no such request")

NO_AIOKAFKA_DELETION: Final = Cannot(NOT_IN_AIOKAFKA.reason, "not deletes")
NOT_TESTED: Final = NotTested()
CLASSIC_ONLY: Final = Cannot("it speaks the classic protocol only")
NO_KCAT_TRANSACTIONS: Final = Cannot("kcat has no transactions")
NO_RD_OFFSET_DELETION: Final = Cannot(NOT_IN_LIBRDKAFKA.reason, "not deletes")

_SHARE: Final = Shown("rebalances", "test_members_share_the_partitions")
_KCAT_READS: Final = Shown("groups", "test_kcat_reads_as_a_member")
_READ_ON: Final = Shown("rebalances", "test_the_next_member_reads_on")
_STATIC: Final = Shown("rebalances", "test_a_static_member_returns_without_a_rebalance")
_GOES_ON: Final = Shown("rebalances", "test_a_group_goes_on_when_its_coordinator_is_gone")
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
    "subscribes as a group; members join and leave": _cells(_SHARE, _SHARE, _SHARE, _KCAT_READS),
    "assignors: range, roundrobin": _cells(_SHARE, _SHARE, _SHARE, NOT_TESTED),
    "assignors: sticky, cooperative-sticky": _cells(
        Shown("rebalances", _SHARE.test, "cooperative"),
        Shown("rebalances", _SHARE.test, "both"),
        Shown("rebalances", _SHARE.test, "sticky"),
        NOT_TESTED,
    ),
    "the consumer protocol (KIP-848)": _cells(
        Shown("groups", "test_librdkafka_shares_a_topic_as_a_group"),
        CLASSIC_ONLY,
        CLASSIC_ONLY,
        CLASSIC_ONLY,
    ),
    "commits offsets; the next member reads on from there": _cells(
        _READ_ON, _READ_ON, _READ_ON, Shown("rebalances", "test_kcat_reads_on")
    ),
    "a static member returns without a rebalance, or its session ends": _cells(
        _STATIC, _STATIC, _STATIC, NOT_TESTED
    ),
    "goes on when the group's coordinator is gone": _cells(
        _GOES_ON, _GOES_ON, _GOES_ON, NOT_TESTED
    ),
    "lists, describes and deletes groups": _cells(
        Shown("rebalances", "test_groups_are_listed_described_and_deleted"),
        Shown("rebalances", "test_kafka_python_administers_groups"),
        NO_AIOKAFKA_DELETION,
        NO_KCAT_ADMIN,
    ),
    "alters, resets and deletes a group's offsets": _cells(
        NO_RD_OFFSET_DELETION,
        Shown("rebalances", "test_kafka_python_moves_and_deletes_offsets"),
        NOT_IN_AIOKAFKA,
        NO_KCAT_ADMIN,
    ),
    "removes static members": _cells(
        NOT_IN_LIBRDKAFKA,
        Shown("rebalances", "test_an_administrator_removes_static_members"),
        NOT_IN_AIOKAFKA,
        NO_KCAT_ADMIN,
    ),
    "transactions: commit, abort": _cells(
        Shown("transactions", "test_librdkafka_commits_and_aborts"),
        Shown("transactions", "test_kafka_python_commits_and_aborts"),
        Shown("transactions", "test_aiokafka_commits_aborts_and_is_fenced"),
        NO_KCAT_TRANSACTIONS,
    ),
    "transactions: an older producer is fenced": _cells(
        Shown("transactions", "test_librdkafka_fences_an_older_producer"),
        Shown("transactions", "test_kafka_python_fences_an_older_producer"),
        Shown("transactions", "test_aiokafka_commits_aborts_and_is_fenced"),
        NO_KCAT_TRANSACTIONS,
    ),
    "reads committed records, transforms, writes with its offsets": _cells(
        Shown("transactions", "test_librdkafka_copies_exactly_once"),
        Shown("transactions", "test_kafka_python_copies_exactly_once"),
        Shown("transactions", "test_aiokafka_copies_exactly_once"),
        NO_KCAT_TRANSACTIONS,
    ),
    "lists and describes transactions": _cells(
        NOT_IN_LIBRDKAFKA,
        Shown("transactions", "test_kafka_python_lists_and_describes_transactions"),
        NOT_IN_AIOKAFKA,
        NO_KCAT_ADMIN,
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
            match cells[client]:
                case Shown(says=says):
                    shown.append(says)
                case NotTested():
                    shown.append("")
                case Cannot(reason=reason, says=says):
                    if reason not in reasons:
                        reasons.append(reason)
                    shown.append(f"{says} ({reasons.index(reason) + 1})")
        yield re.sub(" +", " ", f"| {what} | " + " | ".join(shown) + " |")
    yield ""
    for number, reason in enumerate(reasons, start=1):
        yield f"{number}. {reason}"


if __name__ == "__main__":
    print(markdown(), end="")
