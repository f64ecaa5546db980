"""Fixtures of the tests of whole brokers."""

import pytest


@pytest.fixture
def quiet_nodes(caplog: pytest.LogCaptureFixture) -> None:
    """What thousands of dying brokers have to say would fill the memory."""
    caplog.set_level("CRITICAL", logger="nodes")
