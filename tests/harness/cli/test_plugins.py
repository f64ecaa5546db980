"""`highwater plugins`."""

import json

import pytest

from harness.cli.main import main
from harness.plans import plan
from nemesis.faults import catalogue
from nemesis.faults.plugged import Plugged


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the text on stdout."""
    with pytest.raises(SystemExit) as end:
        main(["plugins", *arguments])
    assert not end.value.code
    return capsys.readouterr().out


def test_plugins_are_listed_with_their_packages_and_problems(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text and as JSON."""
    found = Plugged((), ("the entry point x cannot be used: why",), {"stutter": "a-package 1.0"})
    monkeypatch.setattr(catalogue, "OF_OTHERS", found)
    text = printed(capsys)
    assert "faults\n  stutter (a-package 1.0)\n  left out: the entry point x cannot" in text
    faults, *others = json.loads(printed(capsys, "--json"))
    assert faults["names"] == {"stutter": "a-package 1.0"}
    assert faults["problems"] == ["the entry point x cannot be used: why"]
    rest = ["detectors", "systems", "targets", "clients", "workloads"]
    assert [each["what"] for each in others] == rest
    assert not plan.SYSTEM_NAMES.packages()
