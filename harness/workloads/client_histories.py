"""Opens the history of one client process, and gives each client its part of it."""

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.recording.history import HistoryWriter, OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.keyed_sends import KeyedSends, Keys
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.passes import Passes
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.reads import MemberReads, Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.text_payload import TextPayload
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.config import CLIENTS_PER_PROCESS, ClientConfig
from harness.workloads.configs import AnyConfig

if TYPE_CHECKING:  # the clients of topics do without it
    from harness.workloads.further_config import FurtherConfig

SPARE_CLIENTS: Final = 100
"""Client numbers of a process that are kept for producers that cannot go on."""


def open_history(config: AnyConfig) -> HistoryWriter:
    """Open the history of a process, which must not exist yet."""
    return HistoryWriter(
        Path(config.history_dir) / f"{config.name}.{config.first_client}.arrows",
        writer_id=config.first_client,
        base_ns=config.base_ns,
        rotate_s=config.rotate_s,
    )


class ClientHistories:
    """Gives every client of a topic its part of the history, with the next client number.

    The client's counters go to the given tally. Any thread may call it.
    """

    def __init__(self, config: ClientConfig, writer: OperationWriter) -> None:
        self._topic = config.topic
        self._acks = config.acks
        self._writer = writer
        self._last_replaceable = config.first_client + CLIENTS_PER_PROCESS - SPARE_CLIENTS
        self._sends_per_producer = config.sends_per_producer or None
        self._clients = itertools.count(config.first_client)
        self._isolation = config.isolation
        self._keys = Keys.of(config.keys)
        made = TextPayload if config.text else PayloadCodec
        self._codec = made(config.run_id, config.value_bytes)

    def sends(self, tally: Tally) -> Sends:
        """Return the sends of a new producer. The last producers that have a number may go on."""
        client = next(self._clients)
        made = Sends if self._keys is None else partial(KeyedSends, keys=self._keys)
        return made(
            client=client,
            limit=self._sends_per_producer if client < self._last_replaceable else None,
            topic=self._topic,
            acks=self._acks,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )

    def reads(self, tally: Tally) -> Reads:
        """Return the reads of a new consumer."""
        return Reads(
            client=next(self._clients),
            topic=self._topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            isolation=self._isolation,
        )

    def passes(self, tally: Tally) -> Passes:
        """Return the passes of a new reader."""
        return Passes(
            client=next(self._clients),
            topic=self._topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )


class FurtherHistories:
    """Gives every client of a further workload its part of the history, with the next client
    number. Any thread may call it."""

    def __init__(self, config: "FurtherConfig", writer: OperationWriter, value_bytes: int) -> None:
        """`value_bytes` is the size of what the clients write."""
        self._config = config
        self._writer = writer
        self._clients = itertools.count(config.first_client)
        self._last_replaceable = config.first_client + CLIENTS_PER_PROCESS - SPARE_CLIENTS
        self._codec = PayloadCodec(config.run_id, value_bytes)

    def next_client(self) -> int:
        """Return the number of a new client."""
        return next(self._clients)

    def is_replaceable(self, client: int) -> bool:
        """Return whether another client may take the place of this one. The last clients that have
        a number stay."""
        return client < self._last_replaceable

    def transactions(
        self, client: int, topic: str, transactional_id: str, tally: Tally, group: str | None = None
    ) -> TransactionSends:
        """Return the transactions of a producer; with `group` it copies what the group reads."""
        return TransactionSends(
            client=client,
            topic=topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            transactional_id=transactional_id,
            group=group,
        )

    def sends(self, client: int, topic: str, tally: Tally, group: str | None = None) -> Sends:
        """Return the sends of a producer; with `group` it copies what the group reads."""
        return Sends(
            client=client,
            topic=topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            acks=self._config.acks_of(topic),
            group=group,
        )

    def member_reads(
        self, client: int, topics: Sequence[str], tally: Tally, group: str
    ) -> MemberReads:
        """Return the reads of a member of a group, which has these topics."""
        return MemberReads([self.reads(client, topic, tally, group) for topic in topics])

    def reads(self, client: int, topic: str, tally: Tally, group: str | None = None) -> Reads:
        """Return the reads of a consumer, or those of a member of a group in one topic."""
        return Reads(
            client=client,
            topic=topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            isolation=self._config.isolation(topic),
            group=group,
        )

    def membership(self, client: int, group: str, tally: Tally) -> Membership:
        """Return what a member of a group goes through."""
        return Membership(
            client=client,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            group=group,
        )
