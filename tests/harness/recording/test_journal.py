"""The journal: on disk before the action, readable after any crash, locked by its living owner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.recording import journal
from harness.recording.journal import Journal, JournalError, JournalHeld


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A registry of the test's own."""
    path = tmp_path / "registry"
    path.mkdir()
    return path


def test_records_are_on_disk_in_order_when_record_returns(tmp_path: Path, registry: Path) -> None:
    """Another reader sees each record, after the header that names the run."""
    with Journal.create(tmp_path / "j", run_id="r1", registry=registry) as held:
        for number in range(3):
            held.record("thing", number=number)
            assert journal.read(tmp_path / "j")[-1]["number"] == number
        kinds = [record["kind"] for record in held.records()]
    assert kinds == ["run", "thing", "thing", "thing"]
    assert journal.read(tmp_path / "j")[0]["run_id"] == "r1"


def test_journal_truncated_at_any_byte_gives_the_records_before(
    tmp_path: Path, registry: Path
) -> None:
    """An incomplete line is skipped, and a later record is still read."""
    path = tmp_path / "j"
    with Journal.create(path, run_id="r1", registry=registry) as held:
        held.record("thing", name="größer")
        held.record("thing", name="second")
    whole, records = path.read_bytes(), journal.read(path)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = whole[:cut].split(b"\n")[:-1]
        read = journal.read(path)
        # A line that lacks only its newline is a whole record.
        assert read in (records[: len(complete)], records[: len(complete) + 1])
        with Journal.take_over(path, registry=registry) as later:
            later.record("after")
        assert [r["kind"] for r in journal.read(path)] == [*(r["kind"] for r in read), "after"]


def test_lines_that_are_no_records_are_skipped(tmp_path: Path) -> None:
    """The records around them count, whatever a crash or a person wrote."""
    path = tmp_path / "j"
    path.write_bytes(b'\x00\x00\n[1]\n"x"\n{"no":"kind"}\n{"kind":1}\n{"kind":"thing"}\n\xff\n')
    assert journal.read(path) == [{"kind": "thing"}]


def test_locked_journal_cannot_be_taken_over(tmp_path: Path, registry: Path) -> None:
    """This holds while the owner has it open."""
    owner = Journal.create(tmp_path / "j", run_id="r1", registry=registry)
    with owner, pytest.raises(JournalHeld):
        Journal.take_over(tmp_path / "j", registry=registry)
    with Journal.take_over(tmp_path / "j", registry=registry):
        pass


def test_lock_ends_with_its_owner_and_does_not_pass_to_children(
    tmp_path: Path, registry: Path
) -> None:
    """A killed harness holds no lock, even if a process that it started is alive."""
    script = (
        "import subprocess, sys, pathlib, harness.recording.journal as j;"
        "held = j.Journal.create(pathlib.Path(sys.argv[1]), run_id='r', "
        "registry=pathlib.Path(sys.argv[2]));"
        "child = subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL);"
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    path = tmp_path / "j"
    with subprocess.Popen(
        [sys.executable, "-c", script, path, registry],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        try:
            with pytest.raises(JournalHeld):
                Journal.take_over(path, registry=registry)
            owner.kill()
            owner.wait()
            with Journal.take_over(path, registry=registry) as held:
                assert held.records()[0]["kind"] == "run"
        finally:
            os.kill(child, 9)


def test_registry_has_a_run_until_it_is_finished(tmp_path: Path, registry: Path) -> None:
    """A closed run is unfinished; a finished run is removed, and its journal says so."""
    path = tmp_path / "j"
    Journal.create(path, run_id="r1", registry=registry).close()
    assert journal.registered(registry) == [path]
    with Journal.take_over(path, registry=registry) as held:
        held.finish()
    assert journal.registered(registry) == []
    assert json.loads(path.read_text().splitlines()[-1])["kind"] == journal.UNDONE


def test_second_journal_at_the_same_path_is_refused(tmp_path: Path, registry: Path) -> None:
    """A run never overwrites records that another run may need for its undo."""
    Journal.create(tmp_path / "j", run_id="r1", registry=registry).close()
    with pytest.raises(FileExistsError):
        Journal.create(tmp_path / "j", run_id="r2", registry=registry)


def test_the_environment_names_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For harnesses that must not remove what each other's killed runs left."""
    monkeypatch.setenv(journal.REGISTRY, str(tmp_path / "own"))
    monkeypatch.setenv(journal.ROOTLESS_UID, "1000")
    assert journal.registry_dir() == tmp_path / "own"
    assert (tmp_path / "own").is_dir()


def test_registry_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory where anybody may write, a link must not be followed."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(journal.ROOTLESS_UID, "1000")
    assert journal.registry_dir() == tmp_path / "highwater"
    (tmp_path / "highwater").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "highwater").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="someone else"):
        journal.registry_dir()
