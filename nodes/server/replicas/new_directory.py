"""The directory of a new log, which is not created on the disk before the log has records.

Creating a topic of thousands of partitions would cost thousands of directories and files on every
replica, seconds of a disk's time, for logs without records. So a new log is opened on a
NewDirectory: a Disk that keeps the files of that one directory in memory until the first record is
appended, or until something in it has to be durable. Then all files are written to the disk, the
topic's id included, before the record is appended. A crash before that loses an empty log, and the
next start creates an empty log again. All other paths go straight to the real disk.
"""

from nodes.storage.disk import Disk, File, Space


class NewDirectory:
    """`disk`, on which `directory` is not created yet. See `nodes.storage.disk.Disk`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._made = False
        self._exists = False
        self._contents: dict[str, bytes] = {}

    def make(self) -> Disk:
        """Create the directory and its files on the disk, once; return the disk. Raises OSError."""
        if not self._made:
            self._disk.makedirs(self._directory)
            for path, content in self._contents.items():
                if content:
                    self._disk.write_atomic(path, content, durable=False)
                else:
                    self._disk.open(path, create=True).close()
            self._made = True
        return self._disk

    def _holds(self, path: str) -> bool:
        inside = path == self._directory or path.startswith(f"{self._directory}/")
        return inside and not self._made

    def content(self, path: str) -> bytes | None:
        """The content of a file that is only in memory; None if it is on the disk."""
        return None if self._made else self._contents[path]

    def open(self, path: str, *, create: bool = False) -> File:
        if not self._holds(path):
            return self._disk.open(path, create=create)
        if path not in self._contents:
            if not create:
                raise FileNotFoundError(path)
            self._contents[path] = b""
        return _NewFile(self, path)

    def exists(self, path: str) -> bool:
        if not self._holds(path):
            return self._disk.exists(path)
        return path in self._contents or (path == self._directory and self._exists)

    def listdir(self, path: str) -> list[str]:
        if not self._holds(path):
            return self._disk.listdir(path)
        return sorted(name.rpartition("/")[2] for name in self._contents)

    def makedirs(self, path: str) -> None:
        if self._holds(path):
            self._exists = True
        else:
            self._disk.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        if source == self._directory and not self._made:
            self._contents.clear()  # deleted before it was created on the disk
        else:
            self.make().rename(source, target)

    def unlink(self, path: str) -> None:
        if not self._holds(path):
            self._disk.unlink(path)
        elif self._contents.pop(path, None) is None:
            raise FileNotFoundError(path)

    def remove_dir(self, path: str) -> None:
        self.make().remove_dir(path)

    def read(self, path: str) -> bytes:
        if not self._holds(path):
            return self._disk.read(path)
        if path not in self._contents:
            raise FileNotFoundError(path)
        return self._contents[path]

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if self._holds(path) and not durable:
            self._contents[path] = data
        else:
            self.make().write_atomic(path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        self.make().sync_dir(path)

    async def sync(self, target: File | str) -> None:
        await self.make().sync(target.real() if isinstance(target, _NewFile) else target)

    def space(self) -> Space:
        return self._disk.space()

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return self._disk.oldest_sync_age_ms(now_ms)


class _NewFile:
    """A file of a NewDirectory. See `File`."""

    def __init__(self, directory: NewDirectory, path: str) -> None:
        self._directory = directory
        self._path = path
        self._real: File | None = None
        self._closed = False

    def real(self) -> File:
        """The file on the disk, created if it is missing. Raises OSError."""
        if self._real is None:
            if self._closed:
                raise ValueError(f"{self._path} is closed")
            self._real = self._directory.make().open(self._path, create=True)
        return self._real

    def size(self) -> int:
        content = self._directory.content(self._path)
        return self.real().size() if content is None else len(content)

    def pread(self, offset: int, length: int) -> bytes:
        content = self._directory.content(self._path)
        if content is None:
            return self.real().pread(offset, length)
        return content[offset : offset + length]

    def append(self, data: bytes | bytearray | memoryview) -> None:
        (self._real or self.real()).append(data)

    def truncate(self, size: int) -> None:
        if size < self.size():
            self.real().truncate(size)

    def rewrite(self, start: int = 0) -> None:
        if start < self.size():
            self.real().rewrite(start)

    def sync(self) -> None:
        self.real().sync()

    def close(self) -> None:
        self._closed = True
        if self._real is not None:
            self._real.close()
