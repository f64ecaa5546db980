"""Hypothesis is for tests: what is run has nothing of it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, {modules}
assert "kio.static.primitive" in sys.modules
assert not [name for name in sys.modules if name.startswith("hypothesis")]
import hypothesis.strategies
"""


@pytest.mark.parametrize(
    "modules",
    [
        "nodes.__main__",
        "harness.cli.main, harness.admin.client",
        "harness.workloads.own",
        "harness.simulation.campaign, harness.simulation.run",
    ],
)
def test_nothing_that_is_run_imports_hypothesis(tmp_path: Path, modules: str) -> None:
    """Nor does it leave Hypothesis's directory where it was started; it still can be imported."""
    script = SCRIPT.format(modules=modules)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []
