"""One client's part of the history, whatever the client does and whatever library it is of."""

from dataclasses import dataclass

from harness.recording.history import OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.payload import PayloadCodec


@dataclass(slots=True, kw_only=True)
class Ledger:
    """For one strand: the client's own."""

    client: int
    """Its number, unique in the run."""
    topic: str
    writer: OperationWriter
    codec: PayloadCodec
    tally: Tally

    def now_ns(self) -> int:
        """ns since the start of the run; any strand may ask."""
        return self.writer.now_ns()

    def open(self) -> None:
        """Write the client's first row, before it can have had any effect."""
        self.writer.start(self.client)

    def close(self) -> None:
        """Write the client's last row: everything that it did is recorded."""
        self.writer.end(self.client)

    def note(self, error: str) -> None:
        """Show an error that is no operation's outcome among the counters."""
        self.tally.last_error = error
