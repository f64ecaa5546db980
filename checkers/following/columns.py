"""The rows that following looks at, as mappings.

Converting a column at a time takes a fraction of the time of converting row by row, and most rows
of other kinds need not be converted at all.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.detectors.outputs import OUTPUT, REREAD
from checkers.following.suspects import Row
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import INIT

COLUMNS = (
    "f", "type", "op", "client", "invoke_ns", "complete_ns", "topic", "partition", "value",
    "offset", "leader_epoch", "acks", "node", "txn", "group", "generation", "transactional_id",
    "copies", "error",
)  # fmt: skip
KINDS = (INIT, "send", "poll", "assign", ASSIGNED, "offset-commit", OUTPUT, REREAD)
"""The kinds of rows of a history that the state is made of."""
AT_A_TIME = 10_000
"""How many rows are converted at once."""


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of KINDS of a table of HISTORY, in order, with the columns COLUMNS."""
    table = table.select(list(COLUMNS))
    wanted = table.filter(pc.is_in(table["f"], value_set=pa.array(KINDS, pa.string())))
    for start in range(0, wanted.num_rows, AT_A_TIME):
        part = wanted.slice(start, AT_A_TIME)
        columns = [_values(part[name].combine_chunks()) for name in COLUMNS]
        for values in zip(*columns, strict=True):
            yield dict(zip(COLUMNS, values, strict=True))


def _values(column: pa.Array) -> list[int | str | None]:
    """Return the values of a column of whole numbers or of texts; None for null."""
    if column.null_count == len(column):
        return [None] * len(column)
    if not pa.types.is_integer(column.type):
        return _texts(column)
    if not column.null_count:
        numbers: list[int | str | None] = column.to_numpy(zero_copy_only=False).tolist()
        return numbers
    known = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(object)
    known[column.is_null().to_numpy(zero_copy_only=False)] = None
    values: list[int | str | None] = known.tolist()
    return values


def _texts(column: pa.Array) -> list[int | str | None]:
    encoded = column.dictionary_encode()
    words = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    places = pc.fill_null(encoded.indices, len(words) - 1).to_numpy(zero_copy_only=False)
    texts: list[int | str | None] = words[places].tolist()
    return texts
