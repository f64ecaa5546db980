"""A Spark session for the modules that want one."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from checkers.engines.spark_sessions import local_spark_session
from tests.support.require import require

PLANS_ARE_ALL: Final = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for many queries of a few rows, whose time goes into plans and compilers. With them a
check of golden histories takes half of the CPU time."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One for all tests of a module."""
    require("java")
    session = local_spark_session()
    for name, value in PLANS_ARE_ALL.items():
        session.conf.set(name, value)
    yield session
    session.stop()
