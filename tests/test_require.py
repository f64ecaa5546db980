"""What a session says of tests that a machine could not run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_ignore_collect
from tests.support import require as required
from tests.support.require import CAPABILITIES, lacking, summary, wanting


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without XFS tools and Java; promises are the test's own."""
    monkeypatch.setattr(required, "has", lambda name: name not in ("xfs", "java", "kafka"))
    monkeypatch.setenv("HIGHWATER_REQUIRE", "kcat")


@pytest.mark.usefixtures("lacks")
def test_a_skip_names_the_package() -> None:
    """And what is lacked first, where one thing needs another."""
    with pytest.raises(pytest.skip.Exception, match="no xfs: apt-get install xfsprogs"):
        required.require("root", "xfs")
    assert lacking(["kafka"]) == ["java"]
    required.require("root", "loop")


@pytest.mark.usefixtures("lacks")
def test_what_was_promised_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, or with all."""
    for promised in ("root,xfs", "all"):
        monkeypatch.setenv("HIGHWATER_REQUIRE", promised)
        with pytest.raises(pytest.fail.Exception, match="promises xfs"):
            required.require("xfs")


def test_the_table_counts_and_installs_everything_at_once() -> None:
    """Skips for other reasons are none of its business."""
    reasons = [
        "this machine has no xfs: apt-get install xfsprogs",
        "this machine has no xfs: apt-get install xfsprogs; this machine has no root: run it",
        "not today",
    ]
    wanted = wanting(reasons)
    assert wanted == {"xfs": 2, "root": 1}
    assert summary(wanted) == [
        "root      1 skipped   run the tests as root",
        "xfs       2 skipped   apt-get install xfsprogs",
        "to run them: apt-get install xfsprogs",
    ]
    assert summary({}) == []


@pytest.mark.parametrize("name", CAPABILITIES)
def test_every_capability_can_be_had(name: str) -> None:
    """There is a sentence for each, and what it needs is in the table."""
    assert CAPABILITIES[name].how_to_get
    assert all(needed in CAPABILITIES for needed in CAPABILITIES[name].needs)


def test_a_session_without_a_cache_ends_well(tmp_path: Path) -> None:
    """Sessions inside a user namespace switch pytest's cache off."""
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    tests = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    command += [f"--confcutdir={tmp_path}", "-p", "tests.conftest", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tests.parent, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_elsewhere_is_collected(pytestconfig: pytest.Config) -> None:
    """pytest asks about every neighbour of what it collects, also outside of the project."""
    assert pytest_ignore_collect(Path("/elsewhere/test_nothing.py"), pytestconfig) is None
    assert pytest_ignore_collect(Path("/elsewhere"), pytestconfig) is None
