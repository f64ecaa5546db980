"""A pytest plugin: writes which of the broker's decisions each test reached, and its seconds.

The file that the environment names gets a JSON list of [test, seconds, functions]. A function is
its module and its qualified name, joined by a colon.
"""

import json
import os
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.simulation.decisions import reached

VARIABLE = "HIGHWATER_REACHING"

_probes = ExitStack()
_notes = reached.Notes()
_tests: list[tuple[str, float, list[str]]] = []


def pytest_configure() -> None:
    """Put the probes in before anything is collected."""
    global _notes
    _notes = _probes.enter_context(reached.noted())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what the test reaches, its fixtures included."""
    _notes.first_ns.clear()
    began = time.perf_counter()
    answer = yield
    numbers = sorted({number for number, _ in _notes.first_ns})
    names = [":".join(reached.functions()[number]) for number in numbers]
    _tests.append((item.nodeid, round(time.perf_counter() - began, 4), names))
    return answer


def pytest_sessionfinish() -> None:
    """Write the file, and take the probes out."""
    _probes.close()
    Path(os.environ[VARIABLE]).write_text(json.dumps(_tests))
