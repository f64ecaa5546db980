"""The contract is printed as it is judged by."""

import json

import pytest

from checkers.contract.contract import CONTRACT
from harness.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what went to stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(["contract", *arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_every_row_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, in the order in which it decides."""
    code, out, _ = printed(capsys, "--json")
    assert code == 0
    assert json.loads(out) == [rule.as_json() for rule in CONTRACT]


def test_one_anomaly(capsys: pytest.CaptureFixture[str]) -> None:
    """Only its own rows."""
    code, out, _ = printed(capsys, "duplicate")
    assert code == 0
    assert "forbidden" in out
    assert "lost-write" not in out


def test_unknown_anomaly_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error is told, with what there is."""
    code, _, err = printed(capsys, "lost-writes")
    assert code == 254
    assert "lost-write," in " ".join(err.split())
