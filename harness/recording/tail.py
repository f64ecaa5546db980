"""Reads the new rows of an Arrow stream while another process writes it.

A call reads complete messages from the position of the last call on. An incomplete message is left
for the next call. A stream that was replaced or became shorter is read from its beginning again.
"""

from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.ipc

MAX_MESSAGES: Final = 100_000
"""How many messages one call reads at most."""


@dataclass(slots=True)
class StreamTail:
    """The position of a reader in one stream."""

    schema: pa.Schema | None = None
    position: int = 0

    def read_new(self, file: BinaryIO, size_bytes: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Return the new complete batches, about `max_bytes` of them at a time.

        Raises ValueError when the file is no Arrow stream.
        """
        if size_bytes < self.position:
            self.schema, self.position = None, 0
        batches: list[pa.RecordBatch] = []
        began = self.position
        file.seek(self.position)
        stream = pa.PythonFile(file, mode="r")
        for _ in range(MAX_MESSAGES):
            if self.position - began >= max_bytes:
                break
            try:
                message = pa.ipc.read_message(stream)
                if self.schema is None:
                    self.schema = pa.ipc.read_schema(message)
                else:
                    batches.append(pa.ipc.read_record_batch(message, self.schema))
            except (EOFError, OSError):
                break  # the regular end, or an incomplete message
            except pa.ArrowInvalid as error:
                if self.schema is None and size_bytes - self.position > 65_536:
                    raise ValueError(f"is no Arrow stream: {error}") from error
                break
            self.position = file.tell()
        return batches
