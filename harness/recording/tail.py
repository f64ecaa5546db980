"""The rows that were added to an Arrow stream since the last look, while somebody writes it.

A look reads whole messages from where the last one ended; a message that is not whole yet is left
for the next look. A stream that was replaced, or has become shorter, is begun anew.
"""

from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.ipc

MESSAGES: Final = 100_000
"""Of one look."""


@dataclass(slots=True)
class Tail:
    """How far one stream has been read."""

    schema: pa.Schema | None = None
    position: int = 0

    def look(self, file: BinaryIO, size_bytes: int, most_bytes: int) -> list[pa.RecordBatch]:
        """The batches that are whole by now; about `most_bytes` of them at a time.

        Raises ValueError where the file is no such stream.
        """
        if size_bytes < self.position:
            self.schema, self.position = None, 0
        batches: list[pa.RecordBatch] = []
        began = self.position
        file.seek(self.position)
        stream = pa.PythonFile(file, mode="r")
        for _ in range(MESSAGES):
            if self.position - began >= most_bytes:
                break
            try:
                message = pa.ipc.read_message(stream)
                if self.schema is None:
                    self.schema = pa.ipc.read_schema(message)
                else:
                    batches.append(pa.ipc.read_record_batch(message, self.schema))
            except (EOFError, OSError):
                break  # the orderly end, or a message that is not whole yet
            except pa.ArrowInvalid as error:
                if self.schema is None and size_bytes - self.position > 65_536:
                    raise ValueError(f"no Arrow stream: {error}") from error
                break
            self.position = file.tell()
        return batches
