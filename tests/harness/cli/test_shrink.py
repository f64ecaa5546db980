"""`highwater shrink` of what does not fail."""

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


@pytest.mark.parametrize("time_s", ["100", "1"])
def test_what_does_not_fail_ends_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], time_s: str
) -> None:
    """That it is looked for, for how long at the most, and that there is nothing to reduce."""
    (tmp_path / "calm.toml").write_text(PLAN)
    with pytest.raises(SystemExit) as ended:
        main.main(["shrink", "1", "--plan", str(tmp_path / "calm.toml"), "--time", time_s])
    told = capsys.readouterr().err
    assert ended.value.code == 254
    assert f"looking for the failure in a simulated world, for {time_s} s at the most" in told
    assert "seed 1 " in told
    assert "there is nothing to reduce" in told
