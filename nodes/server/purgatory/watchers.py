"""Who wants to know of a replica's news: the partitions of fetches, in sessions or waiting.

A watcher stays until it leaves, so that a fetch session of thousands of partitions registers once
and is then told of the few that have news, instead of asking all of them at every fetch.
"""

from typing import Protocol


class Watcher(Protocol):
    """Told in the middle of an append or a commit: may only take notes and fire futures."""

    def appended(self) -> None:
        """The log's end moved."""

    def committed(self) -> None:
        """The high watermark moved."""

    def changed(self) -> None:
        """Role, leader epoch, in-sync set or log start changed, or the replica left this node."""


class Watchers:
    """The watchers of one replica, in order of arrival."""

    __slots__ = ("_of_all", "_of_appends")

    def __init__(self) -> None:
        self._of_all: dict[Watcher, None] = {}
        self._of_appends: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._of_all)

    def add(self, watcher: Watcher, *, appends: bool) -> None:
        """Tell `watcher` of commits and changes, and with `appends` of appends, until it leaves."""
        self._of_all[watcher] = None
        if appends:
            self._of_appends[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Forget `watcher`; fine when it is not known."""
        self._of_all.pop(watcher, None)
        self._of_appends.pop(watcher, None)

    def appended(self) -> None:
        """Tell those who care for appends."""
        for watcher in self._of_appends:
            watcher.appended()

    def committed(self) -> None:
        """Tell everyone that the high watermark moved."""
        for watcher in self._of_all:
            watcher.committed()

    def changed(self) -> None:
        """Tell everyone to look again."""
        for watcher in self._of_all:
            watcher.changed()
