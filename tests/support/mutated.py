"""A pytest plugin: tests run on a broker with the mutation that the environment names.

The file that TESTS names has the tests to run, one in a line, in this order.
"""

import os
from pathlib import Path

import pytest

from harness.simulation.decisions import mutations

VARIABLE = "HIGHWATER_MUTATION"
TESTS = "HIGHWATER_MUTATION_TESTS"


def pytest_configure() -> None:
    """Before anything is collected."""
    mutations.apply(mutations.named(os.environ[VARIABLE]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the named tests, in their order."""
    order = {test: at for at, test in enumerate(Path(os.environ[TESTS]).read_text().splitlines())}
    items[:] = sorted(
        (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
    )
