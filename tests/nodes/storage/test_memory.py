"""MemoryDisk: what a power loss leaves."""

import asyncio
import random

import pytest

from nodes.storage.memory import PAGE_BYTES, MemoryDisk


def test_a_crash_loses_unsynced_data() -> None:
    """Only synced bytes of files with synced names survive."""
    disk = MemoryDisk()
    disk.makedirs("d")
    disk.sync_dir("")
    kept, nameless = disk.open("d/kept", create=True), disk.open("d/nameless", create=True)
    kept.append(b"synced")
    kept.sync()
    disk.sync_dir("d")
    disk.rename("d/nameless", "d/renamed")
    nameless.append(b"content")
    nameless.sync()
    kept.append(b" and not")
    assert disk.read("d/kept") == b"synced and not"
    disk.crash()
    assert disk.read("d/kept") == b"synced"
    assert disk.listdir("d") == ["kept", "nameless"]
    assert disk.read("d/nameless") == b"content"


def test_a_crash_restores_unsynced_removals_and_truncations() -> None:
    """Removals and truncations need their syncs too."""
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    file.append(b"abc")
    file.sync()
    disk.sync_dir("")
    file.truncate(1)
    disk.unlink("a")
    assert not disk.exists("a")
    disk.crash()
    assert disk.read("a") == b"abc"


def test_an_atomic_write_is_durable_only_when_asked() -> None:
    """`durable` is the difference between the new content and the old after a crash."""
    disk = MemoryDisk()
    disk.write_atomic("a", b"1")
    disk.write_atomic("a", b"2", durable=False)
    assert disk.read("a") == b"2"
    disk.crash()
    assert disk.read("a") == b"1"


def test_write_back_before_the_crash_keeps_any_pages() -> None:
    """With a random source, unsynced pages survive or read as zeros; synced ones always stay."""
    seen = set()
    for seed in range(200):
        disk = MemoryDisk()
        file = disk.open("a", create=True)
        disk.sync_dir("")
        file.append(b"s" * PAGE_BYTES)
        file.sync()
        file.append(b"n" * PAGE_BYTES * 2)
        disk.crash(random.Random(seed))
        left = disk.read("a")
        assert left.startswith(b"s" * PAGE_BYTES)
        pages = left[PAGE_BYTES : 2 * PAGE_BYTES], left[2 * PAGE_BYTES :]
        seen.add(tuple(page[:1] for page in pages))
    assert {(b"", b""), (b"n", b""), (b"n", b"n"), (b"\0", b"n")} <= seen


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_data_of_a_failed_sync_is_readable_until_a_power_loss(seed: int | None) -> None:
    """Later syncs bring what is written later; where it was dropped are zeros."""
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    disk.sync_dir("")
    file.append(b"kept ")
    file.sync()
    file.append(b"gone ")
    assert file.drop_unsynced() == 5
    file.append(b"later")
    file.sync()
    assert disk.read("a") == b"kept gone later"
    disk.crash(None if seed is None else random.Random(seed))
    assert disk.read("a") == b"kept \0\0\0\0\0later"


def test_truncated_and_rewritten_data_is_synced_again() -> None:
    """Its pages are new ones."""
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    disk.sync_dir("")
    file.append(b"dropped")
    file.drop_unsynced()
    file.truncate(0)
    file.append(b"written")
    file.sync()
    disk.crash()
    assert disk.read("a") == b"written"


def test_async_sync_takes_files_and_directories() -> None:
    """The coroutine makes content and names durable."""
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    file.append(b"1")

    async def scenario() -> None:
        await disk.sync(file)
        await disk.sync("")

    asyncio.run(scenario())
    disk.crash()
    assert disk.read("a") == b"1"
    assert disk.oldest_sync_age_ms(5.0) == 0


def test_a_new_directory_needs_a_sync_of_its_parent() -> None:
    """Made or renamed, it is lost with the power, and all that is in it, until its parent syncs."""
    disk = MemoryDisk()
    disk.makedirs("d/e")
    disk.open("d/e/a", create=True).sync()
    disk.sync_dir("d/e")
    disk.crash()
    assert disk.listdir("") == []
    disk.makedirs("d/e")
    disk.write_atomic("d/e/a", b"1")  # durable up to the root
    disk.rename("d/e", "d/f")
    assert disk.read("d/f/a") == b"1"
    disk.crash()
    assert disk.listdir("d") == ["e"]
    with pytest.raises(OSError, match="not empty"):
        disk.remove_dir("d/e")
    disk.unlink("d/e/a")
    disk.remove_dir("d/e")
    assert disk.listdir("d") == []


def test_each_name_change_survives_completely_or_not_at_all() -> None:
    """With a random source a rename shows all of itself or nothing; later ones may come first."""
    seen = set()
    for seed in range(200):
        disk = MemoryDisk()
        disk.write_atomic("a", b"old")
        disk.write_atomic("b", b"other")
        disk.write_atomic("a", b"new", durable=False)
        disk.unlink("b")
        disk.crash(random.Random(seed))
        assert disk.exists("a")
        seen.add((disk.read("a")[:1] in (b"n", b""), disk.exists("b")))
    assert seen == {(False, False), (False, True), (True, False), (True, True)}
