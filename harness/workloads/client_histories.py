"""Opens the history of one client process, and gives each client its part of it."""

import itertools
from pathlib import Path
from typing import Final

from harness.recording.history import HistoryWriter, OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import CLIENTS_PER_PROCESS, ClientConfig

SPARE_CLIENTS: Final = 100
"""Client numbers of a process that are kept for producers that cannot go on."""


def open_history(config: ClientConfig) -> HistoryWriter:
    """Open the history of a process, which must not exist yet."""
    return HistoryWriter(
        Path(config.history_dir) / f"{config.topic}.{config.first_client}.arrows",
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
        self._codec = PayloadCodec(config.run_id, config.value_bytes)

    def sends(self, tally: Tally) -> Sends:
        """Return the sends of a new producer. The last producers that have a number may go on."""
        client = next(self._clients)
        return Sends(
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
        )
