"""One client's part of the history; the same for every client and library."""

from dataclasses import dataclass

from harness.recording.history import OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.text_payload import TextPayload


@dataclass(slots=True, kw_only=True)
class ClientHistory:
    """One client's part of the history. Only the client's own thread or task may use it."""

    client: int
    """The client's number, unique in the run."""
    writer: OperationWriter
    codec: PayloadCodec | TextPayload
    tally: Tally

    def now_ns(self) -> int:
        """Return ns since the start of the run. Any thread may call it."""
        return self.writer.now_ns()

    def open(self) -> None:
        """Write the client's first row, before it can have had any effect."""
        self.writer.start(self.client)

    def close(self) -> None:
        """Write the client's last row: the history has everything that it did."""
        self.writer.end(self.client)

    def note(self, error: str) -> None:
        """Show an error that belongs to no operation among the counters."""
        self.tally.last_error = error
