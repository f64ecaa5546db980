"""Deleting a whole log: at once by name, and later by content, as Kafka does.

A log's directory is renamed to `<directory>.<unique>-delete`, which no log has; its files are
removed afterwards, a few at a time, or at the next start. Guarantees: a crash leaves the log whole
under one of the two names (when the power is lost before the next sweep, perhaps the old one: its
`partition.metadata` tells that its topic is gone), for no file is removed before the new name is
on disk.
"""

import re

from nodes.storage.disk import Disk

_MAX_NAME_BYTES = 255
_NAME_MAX_BYTES = 255
_DELETED = re.compile(r".+\.[0-9a-f]+-delete")


def rename_for_deletion(disk: Disk, directory: str) -> str:
    """Give the directory, whose files are closed, its name of deletion; that name."""
    number = 0
    while disk.exists(target := _name(directory, number)):
        number += 1
    disk.rename(directory, target)
    return target


def _deleted_name(directory: str, number: int) -> str:
    """As in Kafka, the log's name is cut where the whole would be too long for a file system."""
    suffix = f".{number:032x}-delete"
    return directory[: _MAX_NAME_BYTES - len(suffix)] + suffix


def _name(directory: str, number: int) -> str:
    suffix = f".{number:032x}-delete"
    return directory[: _NAME_MAX_BYTES - len(suffix)] + suffix


def sweep_deleted(disk: Disk, *, max_files: int | None = None) -> int:
    """Remove deleted logs, at most `max_files` files of them; how many logs are left. Blocks."""
    directories = [name for name in disk.listdir("") if _DELETED.fullmatch(name)]
    if directories:
        disk.sync_dir("")
    left = len(directories)
    budget = max_files
    for directory in directories:
        for name in disk.listdir(directory):
            if budget is not None:
                if budget <= 0:
                    return left
                budget -= 1
            disk.unlink(f"{directory}/{name}")
        disk.remove_dir(directory)
        left -= 1
    return left
