"""Rows of whole numbers by two keys, such as a group and a value: those that were added last."""

from typing import Final

import numpy as np

from checkers.following.columns import Flags, Ints, groups

CARRIED: Final = -1
"""The place of rows that were added with an earlier piece of the history."""


class RecentRows:
    """The rows; `forget` keeps at most `limit`. A row that is added again replaces the older one.

    columns: how many numbers are kept of each, beside the keys and its place in the piece.
    """

    def __init__(self, limit: int, columns: int) -> None:
        self._limit = limit
        self._rows = np.zeros((0, 3 + columns), np.int64)
        self._in_order: dict[int, tuple[Ints, Ints]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, at: Ints, group: Ints, key: Ints, *columns: Ints) -> None:
        """Add rows of a piece, in the order of their places `at`."""
        self._rows = np.concatenate((self._rows, np.column_stack((group, key, at, *columns))))
        self._in_order.clear()

    def find(self, group: Ints, key: Ints) -> tuple[Flags, Ints]:
        """Return which keys are known, and for each of them its place in the piece (or CARRIED) and
        its columns. What stands at unknown keys means nothing."""
        known = np.zeros(len(key), np.bool_)
        found = np.zeros((len(key), self._rows.shape[1] - 2), np.int64)
        for number, wanted in groups(group):
            keys, columns = self._of_group(number)
            if len(keys):
                last = np.searchsorted(keys, key[wanted], side="right") - 1
                known[wanted] = (last >= 0) & (keys[last] == key[wanted])
                found[wanted] = columns[last]
        return known, found

    def _of_group(self, group: int) -> tuple[Ints, Ints]:
        """The second keys of a group in ascending order, and what stands at them."""
        if group not in self._in_order:
            mine = self._rows[self._rows[:, 0] == group]
            mine = mine[np.argsort(mine[:, 1], kind="stable")]
            self._in_order[group] = np.ascontiguousarray(mine[:, 1]), mine[:, 2:]
        return self._in_order[group]

    def forget(self) -> None:
        """End a piece: keep the rows that were added last."""
        self._rows = self._rows[-self._limit :].copy()
        self._rows[:, 2] = CARRIED
        self._in_order.clear()
