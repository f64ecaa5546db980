"""Nothing outside the store can be opened, whatever a name says and whatever a link points to."""

import os
import threading
from pathlib import Path

import pytest

from harness.serve.store_files import Absent, TooLarge, Unreadable, Vault, VaultError

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


def test_what_is_inside_can_be_read(vault: Vault) -> None:
    """Files, directories, and the store itself."""
    assert vault.read(("a", "file"), 100) == b"inside"
    assert [e.name for e in vault.entries(("a",))] == ["b", "file", "inner", "up", "whole"]
    assert [e.kind for e in vault.entries(())] == ["directory", "link"]
    assert vault.about(("a", "up")).kind == "link"


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
def test_nothing_else_is_opened(vault: Vault, place: tuple[str, ...]) -> None:
    """Not upwards, not through links, not by absolute names, and no directory as a file."""
    with pytest.raises(VaultError):
        vault.read(place, 100)


def test_links_are_no_directories(vault: Vault) -> None:
    """Nor can one be listed, or looked through."""
    for place in (("a", "up"), ("a", "whole"), ("..",), ("a", "..")):
        with pytest.raises(Absent):
            vault.entries(place)
    with pytest.raises(Absent):
        vault.about(("a", "up", "file"))


def test_a_pipe_is_no_file_and_holds_nobody_up(store: Path, vault: Vault) -> None:
    """Opening one would wait for whoever writes."""
    os.mkfifo(store / "pipe")
    with pytest.raises(Absent):
        vault.read(("pipe",), 100)


def test_a_file_that_is_too_large_is_not_read(store: Path, vault: Vault) -> None:
    """Beyond what was asked for nothing is kept in memory."""
    with (store / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge):
        vault.read(("large",), 1000)


def test_a_directory_that_becomes_a_link_is_not_followed(store: Path, vault: Vault) -> None:
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
                assert vault.read(("a", "b", "file"), 100) == b"inside"
            except Absent:
                continue
    finally:
        stop.set()
        thread.join()


def test_many_list_the_store_at_once(store: Path, vault: Vault) -> None:
    """Each sees all of it."""
    for number in range(300):
        (store / f"run-{number:03d}").mkdir()
    seen: list[int] = []

    def look() -> None:
        seen.extend(len(vault.entries(())) for _ in range(10))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {302}


def test_what_may_not_be_read_is_said_so(store: Path, vault: Vault) -> None:
    """Root may read everything, so only others can see this."""
    (store / "a/file").chmod(0)
    if os.geteuid() == 0:
        assert vault.read(("a", "file"), 100) == b"inside"
    else:
        with pytest.raises(Unreadable):
            vault.read(("a", "file"), 100)
