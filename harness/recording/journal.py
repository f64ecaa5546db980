"""The run's journal: what exists in the kernel because of this run, on disk before it is made.

JSON lines, one record each, fsynced before `record` returns. A record says what is *about to* be
made, so that whoever finds the journal of a dead run can undo everything that may exist, and
nothing else. Unknown kinds are other people's (the nemesis records its faults here too).

The harness that owns a run holds a lock (flock) on its journal. The kernel drops the lock when the
harness dies, however it dies, and shows it through every kind of namespace: a pid does neither.
While a journal is unfinished, the registry, a directory of the machine's, has a symbolic link to it
and a copy of it, so that the leftovers of a run are found without knowing its store, and undone
although somebody has removed the store. The registry goes with the next boot, as all leftovers do.

How each kind is undone is left to the targets, putting the two together to
`harness.targets.linux.clean`.
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
"""The first record: which run this is, and whose."""
DETACHED = "detached"
"""From here on the run lives on without its harness."""
UNDONE = "undone"
"""The last record: nothing of the run is left."""

ROOTLESS_UID = "HIGHWATER_ROOTLESS_UID"
"""Set inside a user namespace of our making: the user's uid outside it, where we look like root."""


class JournalError(Exception):
    """The journal cannot be used: JournalHeld when its run's harness is alive."""


class JournalHeld(JournalError):
    """A living process holds the journal: its run is not ours to undo."""


def registry_dir() -> Path:
    """The directory that knows this user's unfinished runs; made, and refused if not our own.

    /run/highwater for root, $XDG_RUNTIME_DIR/highwater or /tmp/highwater-<uid> for others; the
    same inside a user namespace as outside it.
    """
    outer_uid = os.environ.get(ROOTLESS_UID)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0 and outer_uid is None:
        path = Path("/run/highwater")
    elif runtime:
        path = Path(runtime) / "highwater"
    else:
        path = Path(f"/tmp/highwater-{outer_uid or os.geteuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Anybody may make a name in /tmp before us.
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise JournalError(f"{path} belongs to someone else; remove it or set XDG_RUNTIME_DIR")
    return path


def registered(registry: Path | None = None) -> list[Path]:
    """The journals of unfinished runs that the registry knows of; some may be gone."""
    directory = registry or registry_dir()
    return [entry.readlink() for entry in sorted(directory.iterdir()) if entry.is_symlink()]


def forget(path: Path, registry: Path | None = None) -> None:
    """Remove a journal from the registry, and its copy."""
    directory = registry or registry_dir()
    _link(path, directory).unlink(missing_ok=True)
    _copy(path, directory).unlink(missing_ok=True)


def is_there(path: Path, registry: Path | None = None) -> bool:
    """Whether there is a journal, or the registry's copy of it."""
    return path.exists() or _copy(path, registry or registry_dir()).exists()


def known_of(path: Path, registry: Path | None = None) -> list[Record]:
    """The records of a journal, or of the registry's copy where it was removed. OSError if
    unreadable."""
    return read(path if path.exists() else _copy(path, registry or registry_dir()))


def read(path: Path) -> list[Record]:
    """The journal's records, in order, without lines torn by a crash. OSError if unreadable."""
    return _whole(path.read_bytes().splitlines())


def _whole(lines: Iterable[bytes]) -> list[Record]:
    records: list[Record] = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("kind"), str):
            records.append(record)
    return records


class Tail:
    """A journal that somebody else writes, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    @property
    def empty(self) -> bool:
        """Whether nothing was read yet."""
        return self._position == 0

    def look(self) -> Iterator[Record]:
        """The records since the last look whose lines are whole; none where there is no journal.
        Raises OSError."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                yield from _whole([line])


class Journal:
    """An open, locked journal. Safe to use from several threads."""

    def __init__(
        self, path: Path, file: IO[bytes], registry: Path, copy: IO[bytes] | None = None
    ) -> None:
        """Use `create` or `take_over`; `file` is open for appending and locked, and so is `copy`,
        the registry's."""
        self.path = path
        self._file = file
        self._copy = copy
        self._registry = registry
        self._mutex = threading.Lock()

    @classmethod
    def create(
        cls, path: Path, *, run_id: str, detached: bool = False, registry: Path | None = None
    ) -> "Journal":
        """Start the journal of a new run at `path`, locked and known to the registry.

        A `detached` run outlives the process that started it: its leftovers are leftovers only
        when none of its processes is alive. Raises FileExistsError where there is a journal.
        """
        path = path.resolve()
        directory = registry or registry_dir()
        file = path.open("x+b", buffering=0)
        journal = cls(path, file, directory)
        try:
            _lock(file, path)
            _sync_directory(path.parent)
            forget(path, directory)
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
        """Lock the journal of a run whose harness is gone, or the registry's copy where somebody
        has removed it. Raises JournalHeld, OSError."""
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
        """Append one record and fsync it. Raises OSError: then the deed must not be done."""
        entry = {"kind": kind, "wall_ns": time.time_ns(), **fields}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        with self._mutex:
            for file in filter(None, (self._file, self._copy)):
                _append(file, line, self.path)

    def records(self) -> list[Record]:
        """Everything recorded so far, also when the file has been removed meanwhile. OSError if
        unreadable."""
        if self._file.closed:
            return known_of(self.path, self._registry)
        descriptor = self._file.fileno()
        return _whole(os.pread(descriptor, os.fstat(descriptor).st_size, 0).splitlines())

    def detach(self) -> None:
        """Record that the run is to outlive its harness, as if it had been made so."""
        self.record(DETACHED)

    def finish(self) -> None:
        """Record that nothing of the run is left, forget it in the registry, let the lock go."""
        self.record(UNDONE)
        forget(self.path, self._registry)
        self.close()

    def close(self) -> None:
        """Let the lock go and leave the run unfinished, for `clean` or for a detached cluster."""
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
    # Named by the path, not the run: a journal without a readable header has only that.
    return registry / blake2b(str(path).encode(), digest_size=8).hexdigest()


def _copy(path: Path, registry: Path) -> Path:
    return registry / f"{_link(path, registry).name}.jsonl"


def _opened(file: Path, journal: Path) -> IO[bytes] | None:
    """A file for appending, locked; None where there is none. Raises JournalHeld, OSError."""
    try:
        opened = file.open("r+b", buffering=0)
    except FileNotFoundError:
        return None
    _lock(opened, journal)
    return opened


def _append(file: IO[bytes], line: bytes, journal: Path) -> None:
    end = file.seek(0, os.SEEK_END)
    if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
        line = b"\n" + line  # after a torn line, ours must still be read
    if file.write(line) != len(line):
        raise OSError(f"{journal}: the record was cut short")
    os.fsync(file.fileno())


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise JournalHeld(f"{path} is held by a running harness") from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
