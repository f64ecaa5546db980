"""A store of runs, and the vault that opens it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.serve.store_files import Vault


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty one; tests that want more have their own."""
    root = tmp_path / "store"
    root.mkdir()
    return root


@pytest.fixture
def vault(store: Path) -> Iterator[Vault]:
    """What reads it."""
    with Vault(store) as opened:
        yield opened
