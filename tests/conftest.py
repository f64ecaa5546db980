"""What holds for every test: descriptors that are opened are closed again, no example of a property
has to be quick, and Spark compiles nothing.

A forgotten descriptor does no harm where it is forgotten. Later tests pay: with a warning that the
garbage collector gives whoever runs then, or with descriptors that are used up.
"""

import gc
import os
from asyncio.selector_events import BaseSelectorEventLoop
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support import tiers
from tests.support.require import summary, wanting

hypothesis.settings.register_profile("highwater", deadline=None)
hypothesis.settings.load_profile("highwater")

# A query on a few thousand rows takes less time than making Java of it, and of that good machine
# code: with both, a check takes more than twice the CPU. What `spark-submit` runs does both. Rows
# that a test hands over would be computed again for each query, while it is planned; Spark's own
# tests leave that rule out, too. One thread collects the garbage of a small heap.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS",
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
    " --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
    " --conf spark.sql.optimizer.excludedRules="
    "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation pyspark-shell",
)

MODULE_MAY_KEEP = 20
"""Descriptors: what imports and fixtures of the whole session take, a JVM's sockets for example."""
SESSION_MAY_KEEP = 50


@pytest.fixture(scope="session", autouse=True)
def _what_a_closing_server_accepts_is_closed() -> Iterator[None]:
    """CPython leaks a connection that is accepted in the turn in which its server closes
    (gh-109564), and some later test would be blamed for it."""
    accept = BaseSelectorEventLoop._accept_connection2  # type: ignore[attr-defined]

    async def careful(
        loop: Any,
        factory: Any,
        connection: socket,
        extra: Any,
        tls: Any = None,
        server: Any = None,
        *bounds: Any,
    ) -> None:
        if server is not None and not server.sockets:
            connection.close()
        else:
            await accept(loop, factory, connection, extra, tls, server, *bounds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseSelectorEventLoop, "_accept_connection2", careful)
        yield


@pytest.fixture(scope="session", autouse=True)
def _session_closes_what_it_opens() -> Iterator[None]:
    with _closed("the session", SESSION_MAY_KEEP):
        yield


@pytest.fixture(scope="module", autouse=True)
def _module_closes_what_it_opens(request: pytest.FixtureRequest) -> Iterator[None]:
    with _closed(request.node.name, MODULE_MAY_KEEP):
        yield


@contextmanager
def _closed(who: str, may_keep: int) -> Iterator[None]:
    before = _open_descriptors()
    yield
    if _open_descriptors().total() - before.total() > may_keep:
        gc.collect()  # cycles of objects that are closed when they go are no leak
        kept = _open_descriptors() - before
        if kept.total() > may_keep:
            pytest.fail(f"{who} left {kept.total()} descriptors open: {kept.most_common(10)}")


def _open_descriptors() -> Counter[str]:
    """What this process has open, by path or kind."""
    found: Counter[str] = Counter()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the listing's own, or another thread's
            continue
        found[target if target.startswith("/") else target.split(":")[0]] += 1
    return found


PASSED, DONE = "highwater/passed", "highwater/done"
"""Where the cache keeps what passed in a session that was told to remember it, and the files of
which nothing is left: a session for the rest need not import them."""
LEFT_OUT = "left out"
"""What a worker tells the session: the tests that the command line leaves out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`.ci/run` has a session without the optional tools, and one for the rest."""
    parser.addoption("--remember-passed", action="store_true", help="for --leave-out-passed")
    parser.addoption(
        "--leave-out-passed",
        action="store_true",
        help="leave out what the last session with --remember-passed has passed",
    )


def _remembered(config: pytest.Config, what: str) -> frozenset[str]:
    """What an earlier session has left in the cache, if the command line says to leave it out."""
    cache = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves none
    asked = cache is not None and config.getoption("--leave-out-passed")
    return frozenset(cache.get(what, [])) if asked else frozenset()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which all has passed."""
    done = _remembered(config, DONE) if collection_path.suffix == ".py" else ()
    return True if collection_path in {config.rootpath / each for each in done} else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Leave out what has passed; begin with what takes longest."""
    passed = _remembered(config, PASSED)
    config.hook.pytest_deselected(items=[each for each in items if each.nodeid in passed])
    items[:] = [each for each in items if each.nodeid not in passed]
    every = {each.nodeid for each in items}
    yield
    items.sort(key=lambda each: tiers.place(tiers.file_of(each.nodeid)))
    if hasattr(config, "workeroutput"):  # that of a worker of pytest-xdist
        config.workeroutput[LEFT_OUT] = sorted(every - {each.nodeid for each in items})


class _ByScope(LoadFileScheduling):
    """The tests of a file stay on one worker, and some files do (`tiers.scope`)."""

    def _split_scope(self, nodeid: str) -> str:
        return tiers.scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Instead of pytest-xdist's own `--dist loadfile`."""
    return _ByScope(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker ends. All have left out the same; one that broke off does not say what."""
    if hasattr(node, "workeroutput"):
        node.config.stash[_LEFT_OUT] = node.workeroutput.get(LEFT_OUT, [])


_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hardly anything that collecting makes is garbage: looking for it takes a quarter of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """The modules stay until the end: the garbage collector need not look at them, not even once.

    A simulated world collects garbage at its start. With ten thousand collected tests that took
    longer than most of the tests.
    """
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What was skipped for want of what, and what installs it."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    wanted = wanting(reasons)
    cache = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves none
    if cache and config.getoption("--remember-passed"):
        stats = terminalreporter.stats
        passed = {report.nodeid for report in stats.get("passed", ())}
        others = [each for kind in stats.keys() - {"", "passed"} for each in stats[kind]]
        left = [report.nodeid for report in others if report.nodeid] + config.stash.get(
            _LEFT_OUT, []
        )
        cache.set(PASSED, sorted(passed))
        cache.set(DONE, tiers.done(passed, left))
    if lines := summary(wanted):
        terminalreporter.section("skipped, since this machine lacks something")
        for line in lines:
            terminalreporter.line(line)
