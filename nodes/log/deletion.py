"""Deletion of a whole log, as in Kafka: it is renamed at once, and its files are removed later.

The directory is renamed to `<directory>.<unique>-delete`, a name that no log has. Its files are
removed afterwards, a few at a time, or at the next start. No file is removed before the new name is
on disk. So a crash leaves the whole log under one of the two names. After a power loss before the
next sweep it may be the old name; then `partition.metadata` shows that the topic was deleted.
"""

import re

from nodes.storage.disk import Disk

_MAX_NAME_BYTES = 255
_DELETED = re.compile(r".+\.[0-9a-f]+-delete")


def rename_for_deletion(disk: Disk, directory: str) -> str:
    """Rename the directory, whose files are closed, for deletion; return the new name."""
    number = 0
    while disk.exists(target := _deleted_name(directory, number)):
        number += 1
    disk.rename(directory, target)
    return target


def _deleted_name(directory: str, number: int) -> str:
    """The new name; as in Kafka, the log's name is shortened if the whole would be too long."""
    suffix = f".{number:032x}-delete"
    return directory[: _MAX_NAME_BYTES - len(suffix)] + suffix


def sweep_deleted(disk: Disk, *, max_files: int | None = None) -> int:
    """Remove deleted logs, at most `max_files` files; return how many logs remain. Blocks."""
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
