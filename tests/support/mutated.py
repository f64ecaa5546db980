"""A pytest plugin: a session that collects its tests once, and runs them on mutant after mutant.

It is asked through a connection: (the mutation's name, the tests in their order). For each question
a forked process changes the broker and runs the tests up to the first that fails. It answers with
that test, or with None. The session ends when the connection does.
"""

import gc
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

from harness.simulation.decisions import mutations

VARIABLE = "HIGHWATER_MUTANTS"
"""The descriptor of the connection."""
DIED = "the process died"


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Answer all questions."""
    items = {item.nodeid: item for item in session.items}
    gc.collect()
    gc.freeze()  # what is shared with the forked processes stays shared
    with Connection(int(os.environ[VARIABLE])) as asked, suppress(EOFError):
        while True:
            name, tests = asked.recv()
            if (child := os.fork()) == 0:
                try:
                    asked.send(_first_failure(session, items, name, tests))
                    os._exit(0)
                finally:
                    os._exit(1)
            if os.waitpid(child, 0)[1]:
                asked.send(DIED)
    return True


def _first_failure(
    session: pytest.Session, items: Mapping[str, pytest.Item], name: str, tests: Sequence[str]
) -> str | None:
    """Run tests up to the first that fails with the mutation, and return it."""
    mutations.apply(mutations.named(name))
    run = [items[test] for test in tests if test in items]
    for item, following in zip(run, [*run[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return item.nodeid
    return None
