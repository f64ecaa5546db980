"""`highwater shrink` of a plan that does not fail."""

from pathlib import Path

import pytest

from harness.cli import main

PLAN = """
name = "calm"
seed = 1
target = "sim"
warmup_s = 0.2
duration_s = 1
[[topics]]
name = "orders"
acks = "all"
partitions = 1
[workload]
client = "own"
producers = 1
rate_per_s = 5
"""


@pytest.mark.parametrize(("time_limit", "time_s"), [("100s", "100"), ("1", "1")])
def test_plan_that_does_not_fail_ends_with_254_and_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], time_limit: str, time_s: str
) -> None:
    """The messages name the time limit, the seed, and the reason."""
    (tmp_path / "calm.toml").write_text(PLAN)
    with pytest.raises(SystemExit) as ended:
        main.main(["shrink", "1", "--plan", str(tmp_path / "calm.toml"), "--time", time_limit])
    printed = capsys.readouterr().err
    assert ended.value.code == 254
    assert f"looking for the failure in a simulated cluster, for at most {time_s} s" in printed
    assert "seed 1 " in printed
    assert "there is nothing to reduce" in printed
