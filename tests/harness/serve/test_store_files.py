"""Nothing outside the store can be opened, whatever a name says and whatever a link points to."""

import os
import threading
from pathlib import Path

import pytest

from harness.serve.store_files import (
    FileAbsent,
    FileTooLarge,
    FileUnreadable,
    StoreFileError,
    StoreFiles,
)

SECRET = b"not for you"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(SECRET)
    root = tmp_path / "store"
    (root / "a/b").mkdir(parents=True)
    (root / "a/file").write_bytes(b"inside")
    (root / "link").symlink_to("../secret")
    (root / "a/up").symlink_to("../../outside")
    (root / "a/whole").symlink_to(tmp_path / "outside")
    (root / "a/inner").symlink_to("file")
    return root


def test_files_in_the_store_can_be_read(store_files: StoreFiles) -> None:
    """Files, directories, and the store itself."""
    assert store_files.read(("a", "file"), 100) == b"inside"
    assert [e.name for e in store_files.entries(("a",))] == ["b", "file", "inner", "up", "whole"]
    assert [e.kind for e in store_files.entries(())] == ["directory", "link"]
    assert store_files.about(("a", "up")).kind == "link"


@pytest.mark.parametrize(
    "place",
    [
        ("..", "secret"),
        ("a", "..", "..", "secret"),
        ("link",),
        ("a", "up", "file"),
        ("a", "whole", "file"),
        ("a", "inner"),
        ("/etc/passwd",),
        ("a/file",),
        ("a", ""),
        (".",),
        ("a\0", "file"),
        ("a", "file\0"),
        ("x" * 300,),
        ("a",) * 3000,
        ("\ud800",),
        ("a", "file", "more"),
        ("a", "b"),
    ],
)
def test_nothing_outside_the_store_is_opened(
    store_files: StoreFiles, place: tuple[str, ...]
) -> None:
    """Not upwards, not through links, not by absolute names, and no directory as a file."""
    with pytest.raises(StoreFileError):
        store_files.read(place, 100)


def test_links_are_not_followed_as_directories(store_files: StoreFiles) -> None:
    """Nor can one be listed, or looked through."""
    for place in (("a", "up"), ("a", "whole"), ("..",), ("a", "..")):
        with pytest.raises(FileAbsent):
            store_files.entries(place)
    with pytest.raises(FileAbsent):
        store_files.about(("a", "up", "file"))


def test_pipe_is_refused_without_blocking(store: Path, store_files: StoreFiles) -> None:
    """Opening one would wait for whoever writes."""
    os.mkfifo(store / "pipe")
    with pytest.raises(FileAbsent):
        store_files.read(("pipe",), 100)


def test_a_file_that_is_too_large_is_not_read(store: Path, store_files: StoreFiles) -> None:
    """Beyond what was asked for nothing is kept in memory."""
    with (store / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileTooLarge):
        store_files.read(("large",), 1000)


def test_a_directory_that_becomes_a_link_is_not_followed(
    store: Path, store_files: StoreFiles
) -> None:
    """However often it changes while it is opened, nothing outside is read."""
    (store / "a/b/file").write_bytes(b"inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (store / "a/b").rename(store / "a/aside")
            (store / "a/b").symlink_to("../../outside")
            (store / "a/b").unlink()
            (store / "a/aside").rename(store / "a/b")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2_000):
            try:
                assert store_files.read(("a", "b", "file"), 100) == b"inside"
            except FileAbsent:
                continue
    finally:
        stop.set()
        thread.join()


def test_many_threads_list_the_store_at_once(store: Path, store_files: StoreFiles) -> None:
    """Each sees all of it."""
    for number in range(300):
        (store / f"run-{number:03d}").mkdir()
    seen: list[int] = []

    def look() -> None:
        seen.extend(len(store_files.entries(())) for _ in range(10))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {302}


def test_unreadable_file_is_refused(store: Path, store_files: StoreFiles) -> None:
    """Root may read everything, so only others can see this."""
    (store / "a/file").chmod(0)
    if os.geteuid() == 0:
        assert store_files.read(("a", "file"), 100) == b"inside"
    else:
        with pytest.raises(FileUnreadable):
            store_files.read(("a", "file"), 100)
