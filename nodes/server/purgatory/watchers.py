"""The watchers of one replica: the partitions of fetch requests and fetch sessions.

A watcher stays until it is removed. So a fetch session of thousands of partitions registers once,
and then hears only of the few partitions that changed; it need not look at all of them for every
fetch.
"""

from typing import Protocol


class Watcher(Protocol):
    """Its methods are called in the middle of an append or a commit.

    So they may only take notes and complete futures.
    """

    def appended(self) -> None:
        """The log end offset moved."""

    def committed(self) -> None:
        """The high watermark moved."""

    def changed(self) -> None:
        """The role, leader epoch, ISR or log start changed, or the replica left this node."""


class Watchers:
    """The watchers of one replica, in order of arrival."""

    __slots__ = ("_of_all", "_of_appends")

    def __init__(self) -> None:
        self._of_all: dict[Watcher, None] = {}
        self._of_appends: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._of_all)

    def add(self, watcher: Watcher, *, appends: bool) -> None:
        """Notify `watcher` of commits and changes, and with `appends` of appends too."""
        self._of_all[watcher] = None
        if appends:
            self._of_appends[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Remove `watcher`, if it is there."""
        self._of_all.pop(watcher, None)
        self._of_appends.pop(watcher, None)

    def appended(self) -> None:
        """Notify the watchers of appends."""
        for watcher in self._of_appends:
            watcher.appended()

    def committed(self) -> None:
        """Notify every watcher that the high watermark moved."""
        for watcher in self._of_all:
            watcher.committed()

    def changed(self) -> None:
        """Notify every watcher that the replica changed."""
        for watcher in self._of_all:
            watcher.changed()
