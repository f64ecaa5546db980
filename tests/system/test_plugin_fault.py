"""The example of a package with a fault of its own, installed beside highwater."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def highwater(folder: Path, *arguments: str) -> str:
    """What a command prints, with the package installed."""
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    environment = os.environ | {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}"}
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return ended.stdout


def test_fault_of_another_package_is_one_of_highwater(tmp_path: Path) -> None:
    """It is listed, and a simulated run injects it."""
    source = tmp_path / "source"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    shutil.copytree(ROOT / "examples/plugin-fault", source)
    subprocess.run([*install, "--target", str(tmp_path / "site"), str(source)], check=True)
    assert "SIGSTOP and SIGCONT in turn" in highwater(tmp_path, "faults", "stutter")
    printed = highwater(
        tmp_path, "simulate", "--seeds", "1..1", "--faults", "stutter", "--duration", "8", "--json"
    )
    result = json.loads(printed)
    assert result["outcome"] == "VALID"
    assert result["met"]["fault stutter"] > 0
