"""A Spark session for the modules that want one."""

from collections.abc import Iterator
from typing import Any

import pytest

from checkers.engines.spark_sessions import local_spark_session
from tests.support.require import require


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One for all tests of a module."""
    require("java")
    session = local_spark_session()
    yield session
    session.stop()
