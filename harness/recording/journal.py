"""The run's journal: a record of everything that the run makes in the kernel, written before.

The journal has one JSON record per line, which is fsynced before `record` returns. A record says
what is *about to* be made. So a later process can undo everything that a dead run may have left,
and nothing else. Other modules write records of their own kinds too, for example the nemesis.

The harness that owns a run holds a lock (flock) on the run's journal. The kernel releases the lock
when the harness dies, and the lock is visible through every kind of namespace; neither is true of a
pid. While a journal is unfinished, the registry, a directory of the machine, has a symbolic link to
the journal and a copy of it. So the leftovers of a run are found without knowing its store, and can
be undone after somebody has removed the store. A reboot empties the registry and removes the
leftovers.

How each kind is undone is left to the targets and to `harness.targets.linux.clean`.
"""

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import IO

Record = Mapping[str, object]

RUN = "run"
"""Kind of the first record: the run and its harness."""
DETACHED = "detached"
"""Kind of a record: from here on the run goes on without its harness."""
UNDONE = "undone"
"""Kind of the last record: nothing of the run is left in the kernel."""

REGISTRY = "HIGHWATER_REGISTRY"
"""The environment variable that names the directory of unfinished runs."""
ROOTLESS_UID = "HIGHWATER_ROOTLESS_UID"
"""The user's uid outside the user namespace that the harness made. Inside it the uid is 0."""


class JournalError(Exception):
    """The journal cannot be used. JournalHeld: because its run's harness is alive."""


class JournalHeld(JournalError):
    """A living process holds the lock of the journal, so its run must not be undone."""


def registry_dir() -> Path:
    """Return the directory that lists this user's unfinished runs; make it if it is missing.

    It is $HIGHWATER_REGISTRY if that is set; otherwise /run/highwater for root, and
    $XDG_RUNTIME_DIR/highwater or /tmp/highwater-<uid> for other users; the same inside a user
    namespace as outside. Harnesses with one registry remove what each other's killed runs left.
    Raises JournalError when the directory belongs to another user.
    """
    outer_uid = os.environ.get(ROOTLESS_UID)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if chosen := os.environ.get(REGISTRY):
        path = Path(chosen)
    elif os.geteuid() == 0 and outer_uid is None:
        path = Path("/run/highwater")
    elif runtime:
        path = Path(runtime) / "highwater"
    else:
        path = Path(f"/tmp/highwater-{outer_uid or os.geteuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Any user can create this name in /tmp first.
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise JournalError(f"{path} belongs to someone else; remove it or set XDG_RUNTIME_DIR")
    return path


def registered(registry: Path | None = None) -> list[Path]:
    """Return the journals of unfinished runs in the registry. Some may not exist any more."""
    directory = registry or registry_dir()
    return [entry.readlink() for entry in sorted(directory.iterdir()) if entry.is_symlink()]


def unregister(path: Path, registry: Path | None = None) -> None:
    """Remove a journal and its copy from the registry."""
    directory = registry or registry_dir()
    _link(path, directory).unlink(missing_ok=True)
    _copy(path, directory).unlink(missing_ok=True)


def exists(path: Path, registry: Path | None = None) -> bool:
    """Return whether the journal or the registry's copy of it exists."""
    return path.exists() or _copy(path, registry or registry_dir()).exists()


def read_or_copy(path: Path, registry: Path | None = None) -> list[Record]:
    """Return the records of a journal, or of the registry's copy if the journal was removed.

    Raises OSError if neither can be read.
    """
    return read(path if path.exists() else _copy(path, registry or registry_dir()))


def read(path: Path) -> list[Record]:
    """Return the journal's records in order, without incomplete lines. Raises OSError."""
    return _parse(path.read_bytes().splitlines())


def has_ended(path: Path) -> bool:
    """Return whether the run of this journal records nothing more: it was undone, or it never had a
    journal. Raises OSError."""
    records = read(path) if path.is_file() else []
    return not records or any(record["kind"] == UNDONE for record in records)


def _parse(lines: Iterable[bytes]) -> list[Record]:
    records: list[Record] = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("kind"), str):
            records.append(record)
    return records


class JournalTail:
    """The position of a reader in a journal that another process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    @property
    def empty(self) -> bool:
        """Whether nothing was read yet."""
        return self._position == 0

    def read_new(self) -> Iterator[Record]:
        """Yield the new records whose lines are complete; none without a file. Raises OSError."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                yield from _parse([line])


class Journal:
    """An open, locked journal. Safe to use from several threads."""

    def __init__(
        self, path: Path, file: IO[bytes], registry: Path, copy: IO[bytes] | None = None
    ) -> None:
        """Use `create` or `take_over`. `file` and the registry's `copy` are open for appending and
        locked."""
        self.path = path
        self._file = file
        self._copy = copy
        self._registry = registry
        self._mutex = threading.Lock()

    @classmethod
    def create(
        cls, path: Path, *, run_id: str, detached: bool = False, registry: Path | None = None
    ) -> "Journal":
        """Start the journal of a new run at `path`; lock it, and enter it in the registry.

        A `detached` run outlives the process that started it, so nothing of it is a leftover while
        one of its processes is alive. Raises FileExistsError when the journal exists.
        """
        path = path.resolve()
        directory = registry or registry_dir()
        file = path.open("x+b", buffering=0)
        journal = cls(path, file, directory)
        try:
            _lock(file, path)
            _sync_directory(path.parent)
            unregister(path, directory)
            journal._copy = _copy(path, directory).open("x+b", buffering=0)
            _lock(journal._copy, path)
            _link(path, directory).symlink_to(path)
            journal.record(RUN, run_id=run_id, pid=os.getpid(), detached=detached)
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def take_over(cls, path: Path, *, registry: Path | None = None) -> "Journal":
        """Lock the journal of a run whose harness is gone, or the registry's copy if the journal
        was removed. Raises JournalHeld, OSError."""
        path = path.resolve()
        directory = registry or registry_dir()
        copy = _opened(_copy(path, directory), path)
        try:
            file = _opened(path, path)
        except BaseException:
            if copy is not None:
                copy.close()
            raise
        if file is None:
            file, copy = copy, None
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such journal", str(path))
        return cls(path, file, directory, copy)

    def record(self, kind: str, /, **fields: object) -> None:
        """Append one record and fsync it. Raises OSError; then the thing must not be made."""
        entry = {"kind": kind, "wall_ns": time.time_ns(), **fields}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        with self._mutex:
            for file in filter(None, (self._file, self._copy)):
                _append(file, line, self.path)

    def records(self) -> list[Record]:
        """Return all records so far, also after the file was removed. Raises OSError."""
        if self._file.closed:
            return read_or_copy(self.path, self._registry)
        descriptor = self._file.fileno()
        return _parse(os.pread(descriptor, os.fstat(descriptor).st_size, 0).splitlines())

    def detach(self) -> None:
        """Record that the run outlives its harness from now on."""
        self.record(DETACHED)

    def finish(self) -> None:
        """Record that nothing of the run is left, remove it from the registry, release the lock."""
        self.record(UNDONE)
        unregister(self.path, self._registry)
        self.close()

    def close(self) -> None:
        """Release the lock and leave the run unfinished, for `clean` or for a detached cluster."""
        self._file.close()
        if self._copy is not None:
            self._copy.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _link(path: Path, registry: Path) -> Path:
    # Named by the path, not by the run id: a journal with a damaged header has only a path.
    return registry / blake2b(str(path).encode(), digest_size=8).hexdigest()


def _copy(path: Path, registry: Path) -> Path:
    return registry / f"{_link(path, registry).name}.jsonl"


def _opened(file: Path, journal: Path) -> IO[bytes] | None:
    """Open a file for appending and lock it; None if it is missing. Raises JournalHeld, OSError."""
    try:
        opened = file.open("r+b", buffering=0)
    except FileNotFoundError:
        return None
    _lock(opened, journal)
    return opened


def _append(file: IO[bytes], line: bytes, journal: Path) -> None:
    end = file.seek(0, os.SEEK_END)
    if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
        line = b"\n" + line  # the last line is incomplete; this one must still be readable
    if file.write(line) != len(line):
        raise OSError(f"{journal}: the record was written only in part")
    os.fsync(file.fileno())


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise JournalHeld(f"{path} is locked by a running harness") from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
