"""Packages of examples/, installed beside highwater for a test: `examples/plugin-*`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install(folder: Path, *names: str) -> None:
    """Install examples/plugin-NAME into `folder`/site, with the metadata of their entry points."""
    for name in names:
        source = folder / f"source-{name}"
        shutil.copytree(ROOT / f"examples/plugin-{name}", source)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(folder / "site"), str(source)], check=True)
        shutil.rmtree(source)


def highwater(folder: Path, *arguments: str, codes: Collection[int] = (0,)) -> str:
    """Return what a command prints that finds the packages in `folder`/site."""
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    environment = os.environ | {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}"}
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode in codes, ended.stdout + ended.stderr
    return ended.stdout
