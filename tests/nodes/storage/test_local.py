"""LocalDisk: real files behind the storage seam."""

import asyncio
import contextlib
import os
import threading
from pathlib import Path

import pytest

from nodes.storage import local
from nodes.storage.local import LARGE_BYTES, LocalDisk


def test_appended_data_is_read_back_at_any_position(tmp_path: Path) -> None:
    """Appends go to the end, reads anywhere, and end where the file ends."""
    file = LocalDisk(tmp_path).open("a", create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    assert file.size() == 11
    assert file.pread(0, 100) == b"hello world"
    assert file.pread(6, 3) == b"wor"
    assert file.pread(11, 3) == b""
    file.close()


def test_a_truncated_file_grows_from_its_new_end(tmp_path: Path) -> None:
    """After truncation the next append is at the new end; truncation never extends."""
    file = LocalDisk(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.truncate(8)
    file.append(b"x")
    assert file.pread(0, 100) == b"0123x"
    assert file.size() == 5
    file.close()
    assert (tmp_path / "a").read_bytes() == b"0123x"


def test_an_existing_file_keeps_its_content_when_opened(tmp_path: Path) -> None:
    """Opening with `create` makes a file only when there is none."""
    (tmp_path / "a").write_bytes(b"abc")
    disk = LocalDisk(tmp_path)
    file = disk.open("a", create=True)
    assert file.size() == 3
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.open("b")


def test_names_are_listed_sorted_renamed_and_removed(tmp_path: Path) -> None:
    """The directory operations do what their names say, relative to the root."""
    disk = LocalDisk(tmp_path)
    disk.makedirs("d/e")
    disk.makedirs("d/e")
    for name in ("d/2", "d/1"):
        disk.write_atomic(name, b"")
    assert disk.listdir("d") == ["1", "2", "e"]
    disk.rename("d/1", "d/2")
    assert disk.listdir("d") == ["2", "e"]
    disk.unlink("d/2")
    disk.sync_dir("d")
    assert not disk.exists("d/2")
    assert disk.exists("d/e")
    with pytest.raises(FileNotFoundError):
        disk.unlink("d/2")


@pytest.mark.parametrize("durable", [True, False])
def test_an_atomic_write_replaces_and_leaves_nothing_else(tmp_path: Path, durable: bool) -> None:
    """The new content is there as a whole, whatever a dead writer left beside it."""
    disk = LocalDisk(tmp_path)
    disk.write_atomic("a", b"old content")
    (tmp_path / "a.tmp").write_bytes(b"left by a writer that died")
    disk.write_atomic("a", b"new", durable=durable)
    assert disk.read("a") == b"new"
    assert disk.listdir("") == ["a"]


def test_a_sync_in_flight_has_an_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a sync hangs its age grows on the loop's clock; afterwards there is none.

    The file is closed meanwhile, and its descriptor outlives the sync.
    """
    release = threading.Event()
    synced: list[tuple[int, os.stat_result]] = []

    def hanging_fsync(descriptor: int) -> None:
        release.wait(10)
        synced.append((descriptor, os.fstat(descriptor)))  # fails if it was closed early

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        disk = LocalDisk(tmp_path)
        file = disk.open("a", create=True)
        assert disk.oldest_sync_age_ms(loop.time() * 1000) == 0
        started = loop.time() * 1000
        first = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(disk.sync(""))
        await asyncio.sleep(0)
        file.close()
        assert 4000 < disk.oldest_sync_age_ms(started + 5000) <= 5000
        release.set()
        await asyncio.gather(first, second)
        assert disk.oldest_sync_age_ms(started + 5000) == 0
        assert not is_open(*synced[0])

    def is_open(descriptor: int, file: os.stat_result) -> bool:
        """Whether it still is of this file: another thread may have been given its number."""
        try:
            return os.path.samestat(os.fstat(descriptor), file)
        except OSError:
            return False

    monkeypatch.setattr(os, "fsync", hanging_fsync)
    asyncio.run(scenario())


def test_the_size_is_right_after_a_failed_write(tmp_path: Path) -> None:
    """When the disk refuses, the error comes through, and size() says what is there."""
    file = LocalDisk(tmp_path).open("a", create=True)
    file.append(b"abc")
    file.close()
    with pytest.raises(OSError, match="Bad file"):
        file.append(b"def")


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take less than it was given; the rest follows."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    file = LocalDisk(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    file.close()
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_few_descriptors_serve_many_files(tmp_path: Path) -> None:
    """Idle files lose theirs, and get them back; what is read and written is the same."""
    disk = LocalDisk(tmp_path, idle_descriptors=4)
    before = open_descriptors(tmp_path)
    files = [disk.open(f"f{number}", create=True) for number in range(40)]
    for round_number in range(3):
        for number, file in enumerate(files):
            file.append(b"%d" % number)
            file.sync()
        assert open_descriptors(tmp_path) - before <= 6
        for number, file in enumerate(files):
            assert file.pread(0, 100) == b"%d" % number * (round_number + 1)
    for file in files:
        file.close()
    assert open_descriptors(tmp_path) == before


def test_a_file_with_unsynced_writes_keeps_its_descriptor(tmp_path: Path) -> None:
    """A failed write-back is reported to the descriptor that wrote; a sync while others write
    does not count for theirs.
    """
    disk = LocalDisk(tmp_path, idle_descriptors=0)
    dirty = disk.open("dirty", create=True)
    dirty.append(b"1")
    written_by = Path(f"/proc/self/fd/{dirty._fd}").readlink(), dirty._fd

    def use_others() -> None:
        for number in range(30):
            other = disk.open(f"f{number}", create=True)
            other.append(b"x")
            other.sync()

    use_others()
    assert (Path(f"/proc/self/fd/{dirty._fd}").readlink(), dirty._fd) == written_by

    async def scenario() -> None:
        syncing = asyncio.ensure_future(disk.sync(dirty))
        await asyncio.sleep(0)
        dirty.append(b"2")
        await syncing

    asyncio.run(scenario())
    use_others()
    assert dirty._fd == written_by[1]
    dirty.sync()
    use_others()
    use_others()
    assert dirty._fd == -1
    assert dirty.pread(0, 9) == b"12"
    dirty.close()


class Held:
    """Instead of the thread that frees files: the descriptors that it would close."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def submit(self, close: object, descriptor: int) -> None:
        """Keep the descriptor."""
        assert close is os.close
        self.descriptors.append(descriptor)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_large_file_without_a_name_is_freed_by_a_thread(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is gone at once. The event loop would be held while the kernel frees it."""
    monkeypatch.setattr(local, "_FREEING", held := Held())
    (tmp_path / "large").write_bytes(bytes(LARGE_BYTES))
    (tmp_path / "small").write_bytes(bytes(LARGE_BYTES - 1))
    disk = LocalDisk(tmp_path)
    if how == "removed":
        disk.unlink("large")
        assert disk.listdir("") == ["small"]
    else:
        disk.rename("small", "large")
        assert disk.listdir("") == ["large"]
    [descriptor] = held.descriptors
    found = os.fstat(descriptor)
    assert (found.st_size, found.st_nlink) == (LARGE_BYTES, 0)
    os.close(descriptor)


def test_nothing_else_is_left_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files are freed as fast as they are handed over; some names have no file."""
    monkeypatch.setattr(local, "_FREEING", held := Held())
    (tmp_path / "small").write_bytes(bytes(LARGE_BYTES - 1))
    (tmp_path / "directory").mkdir()
    disk = LocalDisk(tmp_path)
    disk.unlink("small")
    disk.rename("directory", "other")
    for operation in (disk.unlink, lambda name: disk.rename(name, "new")):
        with pytest.raises(FileNotFoundError):
            operation("missing")
    assert held.descriptors == []


def test_the_thread_frees_what_was_removed(tmp_path: Path) -> None:
    """No descriptor stays open."""
    (tmp_path / "large").write_bytes(bytes(LARGE_BYTES))
    LocalDisk(tmp_path).unlink("large")
    local._FREEING.submit(lambda: None).result()
    assert open_descriptors(tmp_path) == 0


def open_descriptors(directory: Path) -> int:
    """How many this process has open in a directory. Those of other tests may end meanwhile."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own, or another thread's
            found += descriptor.readlink().is_relative_to(directory)
    return found
