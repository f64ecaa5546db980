"""`highwater cluster transactions`: shows and ends transactions, as kafka-transactions does."""

import re
import time
from typing import Annotated, Final

import typer
from kio.schema.errors import ErrorCode

from harness.admin import inspection, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.errors import BadRequest, RequestRefused
from harness.admin.transactions import hanging, requests, text
from harness.admin.transactions.descriptions import (
    STATES,
    Marker,
    OpenTransaction,
    Transaction,
    TransactionListing,
)
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.cli.cluster.state import describe_producers
from harness.cli.options import command_group, known_words
from harness.plans.problems import nearest
from nodes.ids import TopicPartition

app = command_group("Show transactions, find hanging ones and end them.")
app.command("describe-producers")(describe_producers)

MINUTE_MS: Final = 60_000

Topic = Annotated[str, typer.Option(help="The topic of the partition.")]
Partition = Annotated[int, typer.Option(min=0, help="The number of the partition.")]


@app.command("list")
@administrative
def list_transactions(
    state: Annotated[
        str, typer.Option(help="Only transactions in these states, such as ongoing,prepareabort.")
    ] = "",
    producer_id: Annotated[
        list[int] | None, typer.Option(min=0, help="Only of this producer. Repeatable.")
    ] = None,
    duration_filter: Annotated[
        int, typer.Option(min=-1, help="Only transactions that are open for longer than these ms.")
    ] = -1,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option(help="Only ids that match this regular expression as a whole."),
    ] = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the transactional ids that the coordinators know."""
    states = known_words("--state", state, STATES)
    pattern = _regular_expression(transactional_id_pattern or ".*")

    async def work(admin: AdminClient) -> list[TransactionListing]:
        found = await requests.listed(
            admin,
            states=states,
            producer_ids=producer_id or (),
            longer_than_ms=duration_filter,
        )
        # Here, not on the brokers: few know this filter (Kafka since 4.1).
        return [each for each in found if pattern.fullmatch(each.transactional_id)]

    found = administer(work, cluster)
    if as_json:
        print_json([text.listing_data(each) for each in found])
    else:
        print_lines(tool_text.table(text.listing_rows(found)))


@app.command("describe")
@administrative
def describe_transactions(
    transactional_ids: Annotated[list[str], typer.Argument(help="The transactional ids.")],
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show what the coordinators know of transactional ids."""

    async def work(admin: AdminClient) -> list[Transaction]:
        return [await _existing(admin, each) for each in dict.fromkeys(transactional_ids)]

    found = administer(work, cluster)
    now_ms = _now_ms()
    if as_json:
        print_json([text.transaction_data(each, now_ms) for each in found])
    else:
        print_lines(tool_text.table(text.transaction_rows(found, now_ms)))


@app.command("find-hanging")
@administrative
def find_hanging(
    topic: Annotated[str | None, typer.Option(help="Only this topic. Default: all topics.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Only this partition; with --topic.")
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option(min=0, help="Ask only the replicas on this broker. Default: the leaders."),
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            min=0,
            help="Leave out transactions whose producer wrote within this many minutes: their "
            "coordinator may still end them (transaction.max.timeout.ms).",
        ),
    ] = 15,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Find transactions that are open in a log and that no coordinator will end.

    They hold back consumers with read_committed and the log cleaner. `abort` ends them.
    """
    if partition is not None and topic is None:
        raise BadRequest("--partition needs --topic")
    now_ms = _now_ms()

    async def work(admin: AdminClient) -> list[OpenTransaction]:
        names = [
            each.name
            for found in await topics.describe(admin, None if topic is None else [topic])
            for each in found.partitions
            if partition in (None, each.name.partition)
            and (broker_id is None or broker_id in each.replicas)
        ]
        if not names:
            where = "the cluster" if topic is None else f"topic {topic}"
            raise BadRequest(f"{where} has no such partition")
        return await hanging.find(
            admin,
            names,
            now_ms=now_ms,
            max_timeout_ms=max_transaction_timeout * MINUTE_MS,
            broker=broker_id,
        )

    found = administer(work, cluster)
    if as_json:
        print_json([text.hanging_data(each, now_ms) for each in found])
    else:
        print_lines(tool_text.table(text.hanging_rows(found, now_ms)))


@app.command("abort")
@administrative
def abort_transaction(
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[
        int | None, typer.Option(min=0, help="The first offset of the transaction.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(min=0, help="The producer, instead of --start-offset.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, help="The producer's epoch; with --producer-id.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(min=-1, help="The latest coordinator epoch; with --producer-id."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Abort also a transaction that its coordinator will end. It may commit the rest.",
        ),
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Abort a hanging transaction in one partition, by a marker in its log."""
    name = TopicPartition(topic, partition)
    by_producer = (producer_id, producer_epoch, coordinator_epoch)
    given = [each is not None for each in by_producer]
    if (start_offset is None) != all(given) or (start_offset is not None and any(given)):
        raise BadRequest(
            "name the transaction: --start-offset, or all of --producer-id, --producer-epoch and "
            "--coordinator-epoch (`transactions find-hanging` shows them)"
        )

    async def work(admin: AdminClient) -> Marker:
        found = hanging.open_transactions(await inspection.producers(admin, [name]))
        if start_offset is not None:
            marker = _marker_at(found, name, start_offset)
        else:
            assert producer_id is not None
            assert producer_epoch is not None
            assert coordinator_epoch is not None
            marker = Marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=max(0, coordinator_epoch),
            )
        if not force:
            await _check_hanging(admin, name, marker.producer_id)
        await _abort(admin, name, marker)
        return marker

    marker = administer(work, cluster)
    if as_json:
        print_json({"topic": topic, "partition": partition, "producer_id": marker.producer_id})
    else:
        print(f"Aborted the transaction of producer {marker.producer_id} in {name}.")


@app.command("force-terminate")
@administrative
def force_terminate(
    transactional_id: Annotated[str, typer.Argument(help="The transactional id.")],
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Let the coordinator abort the open transaction of an id, and fence its producer."""

    async def work(admin: AdminClient) -> Transaction:
        before = await _existing(admin, transactional_id)
        await requests.terminate(admin, transactional_id)
        return before

    before = administer(work, cluster)
    if as_json:
        print_json({"transactional_id": transactional_id, "state_before": before.state})
    else:
        print(f"Fenced the producer of {transactional_id}; its state was {before.state}.")


def _regular_expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise BadRequest(f"--transactional-id-pattern {text!r}: {error}") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _existing(admin: AdminClient, transactional_id: str) -> Transaction:
    """Return what the coordinator knows of an id. Raises BadRequest about an unknown one."""
    found = (await requests.describe(admin, [transactional_id]))[transactional_id]
    if found is None:
        known = [each.transactional_id for each in await requests.listed(admin)]
        raise BadRequest(
            f"no coordinator knows transactional id {transactional_id}"
            f"{nearest(transactional_id, known)}"
        )
    return found


def _marker_at(found: list[OpenTransaction], name: TopicPartition, start_offset: int) -> Marker:
    """Return the marker for the open transaction that starts there. Raises BadRequest.

    A producer without any marker yet has coordinator epoch -1; as for Kafka's tool, 0 stands for
    it, which is not newer than that of any coordinator.
    """
    starts = {each.producer.transaction_start: each.producer for each in found}
    producer = starts.get(start_offset)
    if producer is None:
        others = ", ".join(map(str, starts)) or "none"
        raise BadRequest(
            f"no transaction is open in {name} from offset {start_offset}; open ones start at: "
            f"{others}"
        )
    return Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )


async def _check_hanging(admin: AdminClient, name: TopicPartition, producer_id: int) -> None:
    """Raise BadRequest if a coordinator will end the producer's transaction in this partition."""
    known = (await hanging.known_transactions(admin, [producer_id])).get(producer_id)
    if known is not None and name in known.partitions:
        raise BadRequest(
            f"the transaction of producer {producer_id} in {name} is not hanging: its coordinator "
            f"{known.coordinator.node_id} will end it (transactional id {known.transactional_id}, "
            f"{known.state}); `transactions force-terminate {known.transactional_id}` aborts it in "
            "all partitions, and --force only in this one"
        )


async def _abort(admin: AdminClient, name: TopicPartition, marker: Marker) -> None:
    try:
        await requests.abort(admin, name, marker)
    except RequestRefused as error:
        hint = _REFUSALS.get(error.code)
        if hint is None:
            raise
        raise BadRequest(f"{error}: {hint}; `transactions describe-producers` shows it") from error


_REFUSALS: Final = {
    ErrorCode.invalid_producer_epoch: "the producer has another epoch in this partition",
    ErrorCode.transaction_coordinator_fenced: (
        "a newer coordinator epoch has written a marker for the producer"
    ),
}
