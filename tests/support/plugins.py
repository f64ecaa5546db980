"""Packages of examples/, installed beside highwater for a test: `examples/plugin-*`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install(folder: Path, *names: str) -> None:
    """Install examples/plugin-NAME into `folder`/site, with the metadata of their entry points.

    They are built with the setuptools of this environment: pip would install one for each.
    """
    sources = [folder / f"source-{name}" for name in names]
    for name, source in zip(names, sources, strict=True):
        shutil.copytree(ROOT / f"examples/plugin-{name}", source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder / "site"), *map(str, sources)], check=True)
    for source in sources:
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
