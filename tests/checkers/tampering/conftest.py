"""The two runs, made once."""

from pathlib import Path

import pytest

from tests.support.checkers.tampering.runs import BROKEN, KEPT, make


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The run that kept the contract, and the one that broke it."""
    return {module: make(module, tmp_path_factory.mktemp("tampering")) for module in (KEPT, BROKEN)}
