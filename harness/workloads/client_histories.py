"""Where the clients of one process record what they do: a history, and each one's ledger on it."""

import itertools
from pathlib import Path

from harness.recording.history import HistoryWriter, OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig


def open_history(config: ClientConfig) -> HistoryWriter:
    """The history of a process, which must not exist yet."""
    return HistoryWriter(
        Path(config.history_dir) / f"{config.topic}.{config.first_client}.arrows",
        writer_id=config.first_client,
        base_ns=config.base_ns,
        rotate_s=config.rotate_s,
    )


class Ledgers:
    """Makes the ledgers of a topic's clients, each under the next client number.

    What a client counts goes to the tally given. Any thread may ask.
    """

    def __init__(self, config: ClientConfig, writer: OperationWriter) -> None:
        self._topic = config.topic
        self._acks = config.acks
        self._writer = writer
        self._clients = itertools.count(config.first_client)
        self._codec = PayloadCodec(config.run_id, config.value_bytes)

    def sends(self, tally: Tally) -> Sends:
        """Of a producer."""
        return Sends(
            client=next(self._clients),
            topic=self._topic,
            acks=self._acks,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )

    def reads(self, tally: Tally) -> Reads:
        """Of a consumer."""
        return Reads(
            client=next(self._clients),
            topic=self._topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )
