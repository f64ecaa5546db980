"""Rewrites the assertions of test modules: `python -m tests.tools.rewrite_assertions`.

Pytest keeps what it has rewritten. In a fresh clone the workers of a session begin with the same
module, and each rewrites all of them. Here each processor rewrites a share. A module that is kept
already is left alone.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from _pytest.assertion import rewrite

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ("test_*.py", "*_test.py", "conftest.py")
"""What pytest rewrites by default."""


class Rewriter:
    """The plugin of a session that collects nothing. It finds which configuration pytest uses."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self.rewritten = 0

    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Instead of a session."""
        state = config.stash[rewrite.assertstate_key]
        for path in self._paths:
            kept = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
            if rewrite._read_pyc(path, kept) is None:
                kept.parent.mkdir(exist_ok=True)
                key, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, key, kept)
                self.rewritten += 1
        return 0


def rewritten(paths: list[Path]) -> int:
    """Rewrite these modules; return how many were not kept."""
    rewriter = Rewriter(paths)
    pytest.main(["--noconftest", "-p", "no:cacheprovider", str(ROOT / "tests")], [rewriter])
    return rewriter.rewritten


def main() -> None:
    """Rewrite all modules below `tests`."""
    paths = sorted({path for name in NAMES for path in (ROOT / "tests").rglob(name)})
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers) as pool:
        counts = pool.map(rewritten, [paths[number::workers] for number in range(workers)])
        print(f"{sum(counts)} of {len(paths)} test modules are rewritten")


if __name__ == "__main__":
    main()
