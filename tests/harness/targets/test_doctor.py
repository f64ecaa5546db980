"""The doctor tries what it reports, and leaves nothing behind."""

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.recording import journal
from harness.targets import doctor
from tests.support.require import is_there, require


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The probes' own journals are registered here, not where this machine's runs are."""
    monkeypatch.setattr(journal, "registry_dir", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["root", "netns", "userns", "loop", "kcat", "chromium"])
def test_the_doctor_and_the_tests_find_the_same_capabilities(name: str) -> None:
    """On this machine."""
    [found] = doctor.capabilities([name])
    assert found.name == name
    assert found.available == is_there(name), found.detail
    assert found.detail


def test_probes_report_the_kernels_reason(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packet rules and frozen disks are really tried; a refusal of the kernel is the detail."""
    require("root", "loop")
    assert doctor.missing_capabilities({"nftables", "freeze"}) == []
    assert list(registry.iterdir()) == []

    def refuse(_mountpoint: Path) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("harness.targets.linux.kernel.freeze", refuse)
    [missing] = doctor.missing_capabilities({"nftables", "freeze"})
    assert missing.name == "freeze"
    assert "Operation not supported" in missing.detail
    assert missing.how_to_get
    assert list(registry.iterdir()) == []


def test_the_table_shows_the_fix_only_for_missing_capabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing program's fix is the command that installs it."""
    monkeypatch.setattr("shutil.which", lambda *_args, **_options: None)
    found = doctor.capabilities(["kcat", "python-packages"])
    assert [(c.name, c.available) for c in found] == [("kcat", False), ("python-packages", True)]
    text = StringIO()
    Console(file=text, width=200).print(doctor.table(found))
    assert "apt install kcat" in text.getvalue()
    assert "pip install" not in text.getvalue()


def test_a_narrow_table_cuts_no_word() -> None:
    """A path that is wider than its column goes on in the next line."""
    path = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    found = [replace(each, detail=path) for each in doctor.capabilities(["python-packages"])]
    text = StringIO()
    Console(file=text, width=60).print(doctor.table(found))
    assert "…" not in text.getvalue()
    assert ".so.1" in text.getvalue()


def test_json_has_one_object_per_capability() -> None:
    """In a fixed order."""
    found = doctor.capabilities(["root", "python-packages"])
    objects = json.loads(doctor.as_json(reversed(found)))
    assert [fields["name"] for fields in objects] == ["python-packages", "root"]
    assert set(objects[0]) == {"name", "available", "detail", "needed_for", "how_to_get"}
    argv = [sys.executable, "-m", "harness.targets.doctor", "root"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == objects[1:]


def test_an_unknown_capability_is_an_error() -> None:
    """A typing error must not count as available."""
    with pytest.raises(KeyError, match="teleport"):
        doctor.missing_capabilities({"root", "teleport"})
