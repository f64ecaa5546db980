"""`highwater contract`."""

import json

import pytest

from checkers.contract.contract import CONTRACT
from harness.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, and the texts on stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(["contract", *arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_json_has_every_row_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "--json")
    assert code == 0
    assert json.loads(out) == [rule.as_json() for rule in CONTRACT]


def test_each_anomaly_has_one_title(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if its rows are in several parts of the contract."""
    _, out, _ = printed(capsys)
    for kind in {rule.anomaly for rule in CONTRACT}:
        assert out.splitlines().count(kind) == 1


def test_rows_are_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """On a narrow terminal, too: each word of each row is there."""
    _, out, _ = printed(capsys)
    words = set(out.split())
    for row in (rule.as_json() for rule in CONTRACT):
        parts = (row["configuration"], row["reason"], row["source"], *row.get("prevented_by", ()))
        assert {word for part in parts for word in part.split()} - {"-"} <= words


def test_named_anomaly_prints_only_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "duplicate")
    assert code == 0
    assert "forbidden" in out
    assert "lost-write" not in out


def test_unknown_anomaly_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, "lost-writes")
    assert code == 254
    assert "lost-write," in " ".join(err.split())
