"""A store of runs, and the object that opens its files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.serve.store_files import StoreFiles


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty store."""
    root = tmp_path / "store"
    root.mkdir()
    return root


@pytest.fixture
def store_files(store: Path) -> Iterator[StoreFiles]:
    """The files of the store."""
    with StoreFiles(store) as opened:
        yield opened
