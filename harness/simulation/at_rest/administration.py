"""What a cluster at rest tells an administrator is true.

An administrator makes a topic, writes to it, moves it, elects leaders, changes its configuration,
and deletes it.
A request that was carried out shows in the answers of every broker soon, and one that was refused
changes nothing. A request that cannot be carried out is refused with Kafka's error.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.admin import configs, inspection, reassignments, records, topics, voters
from harness.admin.client import Address, AdminClient
from harness.admin.errors import AdminError, RequestRefused, TransientError
from harness.simulation.invariants.broken import InvariantBroken
from nodes.ids import TopicPartition

NAME = "administrators-are-told-the-truth"
TOPIC: Final = "highwater.administration"
CONFIG: Final = "max.message.bytes"
WITHIN_S: Final = 30.0
"""How long a step may take, until every broker knows of it."""
POLL_S: Final = 0.1
TIMES_MS: Final = (1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002)
NOBODY: Final = 999_999
"""No broker has this number."""
UNKNOWN_DIRECTORY: Final = UUID(int=1 << 64)


class Seen(NamedTuple):
    """A partition as one broker sees it."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


Partitions = Mapping[int, Seen]
"""The partitions of the topic by number; none if there is no topic."""


async def check_administration(brokers: Mapping[int, Address]) -> None:
    """Judge the answers of these brokers, which are all brokers. Raises InvariantBroken."""
    async with AdminClient(list(brokers.values()), timeout_s=WITHIN_S) as admin:
        work = _Administration(admin, brokers)
        for step in work.steps():
            try:
                await step()
            except AdminError as error:
                name = step.__name__.removeprefix("_").replace("_", " ")
                raise InvariantBroken(NAME, f"{name}: {error}") from error


class _Administration:
    def __init__(self, admin: AdminClient, brokers: Mapping[int, Address]) -> None:
        self._admin = admin
        self._brokers = brokers
        self._one, self._other = sorted(brokers)[:2]

    def steps(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Return what is done, in this order. Each step raises InvariantBroken, AdminError."""
        return (
            self._create,
            self._write_find_and_delete_records,
            self._elect_where_no_election_is_needed,
            self._move,
            self._elect_the_preferred_leader,
            self._add_a_partition,
            self._configure,
            self._change_no_voter,
            self._delete,
        )

    async def _create(self) -> None:
        replicas = ((self._one, self._other), (self._other, self._one))
        config = {CONFIG: "50000", "retention.ms": "-1"}
        await topics.create(self._admin, TOPIC, assignment=replicas, configs=config)
        await self._agree({number: _led_by_first(each) for number, each in enumerate(replicas)})
        again = topics.create(self._admin, TOPIC, partitions=1, replication_factor=1)
        await _refused(again, ErrorCode.topic_already_exists)

    async def _write_find_and_delete_records(self) -> None:
        partition, admin = TopicPartition(TOPIC, 0), self._admin
        written = await records.write(admin, partition, TIMES_MS)
        found = await records.find(admin, partition, TIMES_MS[1])
        low = await records.delete(admin, partition, 2)
        first = await records.find(admin, partition, inspection.EARLIEST)
        if (written, found, low, first) != (0, 1, 2, 2):
            raise InvariantBroken(
                NAME,
                f"three records are written at {written}, the second is found at {found}, two are "
                f"deleted up to {low}, and {first} is the first then",
            )

    async def _elect_where_no_election_is_needed(self) -> None:
        await self._elect(0, ErrorCode.election_not_needed)
        await self._elect(1, ErrorCode.election_not_needed)
        await self._elect(7, ErrorCode.unknown_topic_or_partition)

    async def _move(self) -> None:
        """Make the other broker the preferred leader."""
        moved, admin = TopicPartition(TOPIC, 0), self._admin
        refused = await reassignments.alter(admin, {moved: (self._one, NOBODY)})
        _expect("a move to an unknown broker", refused, ErrorCode.invalid_replica_assignment)
        target = (self._other, self._one)
        if refused := await reassignments.alter(admin, {moved: target}):
            raise InvariantBroken(NAME, f"a move to {target} is refused: {refused}")

        async def done() -> None:
            if await reassignments.ongoing(admin, [moved]):
                raise TransientError(ErrorCode.reassignment_in_progress, f"{moved} still moves")

        await admin.repeat(done, longest_pause_s=POLL_S)
        await self._agree({0: _with_replicas(target)})

    async def _elect_the_preferred_leader(self) -> None:
        # The controller may have elected it already (auto.leader.rebalance.enable).
        await self._elect(0, ErrorCode.none, ErrorCode.election_not_needed)
        await self._agree({0: _led_by_first((self._other, self._one))})

    async def _elect(self, number: int, *expected: ErrorCode) -> None:
        partition = TopicPartition(TOPIC, number)
        kind = reassignments.PREFERRED
        results = await reassignments.elect(self._admin, kind, [partition])
        _expect(f"the election of the preferred leader of {partition}", results, *expected)

    async def _add_a_partition(self) -> None:
        replicas = (self._one, self._other)
        await topics.grow(self._admin, TOPIC, 3, [replicas])
        await self._agree({1: _with_replicas(replicas[::-1]), 2: _led_by_first(replicas)})
        await _refused(topics.grow(self._admin, TOPIC, 2), ErrorCode.invalid_partitions)

    async def _configure(self) -> None:
        resource = configs.topic(TOPIC)
        await configs.alter(self._admin, {resource: {CONFIG: "60000"}})
        unknown = configs.alter(self._admin, {resource: {CONFIG: "70000", "no.such.config": "1"}})
        await _refused(unknown, ErrorCode.invalid_config)
        asked = {
            "resource_type": resource.kind,
            "resource_name": resource.name,
            "configuration_keys": [CONFIG],
        }

        async def look() -> None:
            for node, address in self._brokers.items():
                answer = await self._admin.request(
                    "describe_configs", to=address, resources=[asked], include_synonyms=False
                )
                found = [each.value for each in answer.results[0].configs]
                if found != ["60000"]:
                    raise _not_yet(f"node {node} says that {CONFIG} is {found}, and not 60000")

        await self._admin.repeat(look, longest_pause_s=POLL_S)

    async def _change_no_voter(self) -> None:
        """A node that is no voter cannot leave, and one that never fetched cannot join."""
        before = await self._voters()
        leaves = voters.remove(self._admin, self._one, UNKNOWN_DIRECTORY)
        await _done_or_refused(leaves, ErrorCode.unsupported_version)
        joins = voters.add(self._admin, NOBODY, UNKNOWN_DIRECTORY, ("nobody", 9093))
        await _done_or_refused(joins, ErrorCode.unsupported_version, ErrorCode.request_timed_out)
        if (after := await self._voters()) != before:
            raise InvariantBroken(NAME, f"voters {before} became {after} by wrong requests")

    async def _voters(self) -> list[int]:
        return sorted(each.node_id for each in (await inspection.quorum(self._admin)).voters)

    async def _delete(self) -> None:
        await topics.delete(self._admin, [TOPIC])

        async def look() -> None:
            for node, address in self._brokers.items():
                if seen := await self._seen(address):
                    raise _not_yet(f"node {node} sees {dict(seen)} of the deleted topic")

        await self._admin.repeat(look, longest_pause_s=POLL_S)
        again = topics.delete(self._admin, [TOPIC])
        await _refused(again, ErrorCode.unknown_topic_or_partition)

    async def _agree(self, wanted: Mapping[int, Callable[[Seen], bool]]) -> None:
        """Wait until every broker sees these partitions so."""

        async def look() -> None:
            for node, address in self._brokers.items():
                seen = await self._seen(address)
                for number, is_wanted in wanted.items():
                    if number not in seen or not is_wanted(seen[number]):
                        raise _not_yet(f"node {node} sees {dict(seen)}")

        await self._admin.repeat(look, longest_pause_s=POLL_S)

    async def _seen(self, address: Address) -> Partitions:
        answer: Any = await self._admin.request(
            "metadata", to=address, topics=[{"name": TOPIC}], allow_auto_topic_creation=False
        )
        return {
            int(each.partition_index): Seen(
                int(each.leader_id),
                tuple(map(int, each.replica_nodes)),
                frozenset(map(int, each.isr_nodes)),
            )
            for each in answer.topics[0].partitions
        }


def _with_replicas(replicas: tuple[int, ...]) -> Callable[[Seen], bool]:
    return lambda seen: seen.replicas == replicas and seen.isr == frozenset(replicas)


def _led_by_first(replicas: tuple[int, ...]) -> Callable[[Seen], bool]:
    placed = _with_replicas(replicas)
    return lambda seen: placed(seen) and seen.leader == replicas[0]


def _not_yet(what: str) -> TransientError:
    return TransientError(ErrorCode.replica_not_available, what)


def _expect(
    what: str,
    results: Mapping[TopicPartition, reassignments.PartitionError],
    *expected: ErrorCode,
) -> None:
    codes = [code for code, _ in results.values()]
    if len(codes) != 1 or codes[0] not in expected:
        names = [code.name.upper() for code in codes]
        raise InvariantBroken(
            NAME, f"{what} is answered {names}, and not {expected[0].name.upper()}"
        )


async def _refused(request: Awaitable[None], code: ErrorCode) -> None:
    """Expect that a request is refused."""
    try:
        await request
    except RequestRefused as error:
        if error.code is code:
            return
        raise
    raise InvariantBroken(NAME, f"a request is not refused with {code.name.upper()}")


async def _done_or_refused(request: Awaitable[None], *codes: ErrorCode) -> None:
    try:
        await request
    except (RequestRefused, TransientError) as error:
        if error.code not in codes:
            raise
