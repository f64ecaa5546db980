"""A pytest plugin: the tests run on a broker with the mutation that the environment names."""

import os

from harness.simulation.decisions import mutations

VARIABLE = "HIGHWATER_MUTATION"


def pytest_configure() -> None:
    """Before anything is collected."""
    mutations.apply(mutations.named(os.environ[VARIABLE]))
