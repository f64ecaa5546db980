"""Archives of a node's machine: files come out, and nothing outside of the directory changes."""

import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from harness.targets.ssh.fetched import unpack

# Python 3.12 and 3.13 announce that there are filters, also where a test hides them.
pytestmark = pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")


@pytest.fixture(params=["with filters", "without filters"])
def _python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pythons before 3.11.4 have no filters."""
    if request.param == "without filters":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive with these entries."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for info, data in entries:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


def entry(name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Written by another user, and writable by everyone."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid = kind, link, 0o666, 12345, 12345
    return info


@pytest.mark.usefixtures("_python")
def test_files_belong_to_us(tmp_path: Path) -> None:
    """Whoever wrote them there."""
    archive = packed(
        (entry("./data", kind=tarfile.DIRTYPE), b""), (entry("./data/node.log"), b"it ended")
    )
    unpack(archive, tmp_path)
    found = tmp_path / "data/node.log"
    assert found.read_bytes() == b"it ended"
    assert found.stat().st_uid == os.getuid()
    assert found.stat().st_mode & 0o777 == 0o644
    assert os.access(found.parent, os.X_OK)


@pytest.mark.usefixtures("_python")
@pytest.mark.parametrize("name", ["../outside", "./data/../../outside"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    """The archive is refused."""
    (tmp_path / "place").mkdir()
    with pytest.raises(tarfile.TarError):
        unpack(packed((entry(name), b"evil")), tmp_path / "place")
    assert not (tmp_path / "outside").exists()


@pytest.mark.usefixtures("_python")
def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link to a place outside is refused, or left out."""
    (tmp_path / "place").mkdir()
    (tmp_path / "theirs").mkdir()
    archive = packed(
        (entry("./way", kind=tarfile.SYMTYPE, link="../theirs"), b""), (entry("./way/in"), b"evil")
    )
    with contextlib.suppress(tarfile.TarError):
        unpack(archive, tmp_path / "place")
    assert not (tmp_path / "theirs/in").exists()
