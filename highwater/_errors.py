"""The errors of the public API, and how the errors of the private packages become them.

HighwaterError
├── RunUnreadable        a directory is no run, or its files are damaged
├── NotJudged            a run has no verdict yet
├── InvalidPlan          a plan cannot be run as it is
├── InvalidRequest       an argument makes no sense, such as an expectation that cannot be read
├── RunFailed            the harness could not do its work
├── ClusterFailed        a cluster for tests cannot be started, or has ended
├── FaultFailed          a fault was not injected, had no effect, or could not be healed
└── EngineUnavailable    DuckDB or Spark cannot be used on this machine
"""

from collections.abc import Iterator
from contextlib import contextmanager


class HighwaterError(Exception):
    """Base of all errors of this package. The text says what happened and what to do.

    Example:
        >>> try:
        ...     highwater.load("no-such-directory")
        ... except highwater.HighwaterError as error:
        ...     print(type(error).__name__)
        RunUnreadable
    """


class RunUnreadable(HighwaterError):
    """A directory is no run, or its files are damaged.

    Example:
        >>> try:
        ...     highwater.load("/")
        ... except highwater.RunUnreadable as error:
        ...     print(str(error).splitlines()[0].partition(":")[0])
        /
    """


class NotJudged(HighwaterError):
    """A run has no verdict yet; `highwater.check(run)` makes one.

    Example:
        >>> unjudged = highwater.load(UNJUDGED)
        >>> try:
        ...     unjudged.verdict
        ... except highwater.NotJudged:
        ...     verdict = highwater.check(unjudged)
        >>> unjudged.verdict.outcome
        'INVALID'
    """


class InvalidPlan(HighwaterError):
    """A plan cannot be run as it is. The text names the key, its value and the fix.

    Example:
        >>> try:
        ...     highwater.plan("first-light", nodes=0)
        ... except highwater.InvalidPlan as error:
        ...     print("nodes" in str(error))
        True
    """


class InvalidRequest(HighwaterError):
    """An argument makes no sense, such as an expectation that cannot be read.

    Example:
        >>> try:
        ...     highwater.check(RUN, expect=["lost is small"])
        ... except highwater.InvalidRequest:
        ...     print("an expectation is written as `lost.acks-all = 0`")
        an expectation is written as `lost.acks-all = 0`
    """


class RunFailed(HighwaterError):
    """The harness could not do its work, for example because the cluster did not start.

    `output` has the last lines that the run printed.

    Example:
        >>> error = highwater.RunFailed("the cluster did not start", output=("no space left",))
        >>> error.output
        ('no space left',)
    """

    def __init__(self, text: str, *, output: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.output = output


class ClusterFailed(HighwaterError):
    """A cluster for tests cannot be started, or has ended; the text has the last lines of its log.

    Example:
        >>> issubclass(highwater.ClusterFailed, highwater.HighwaterError)
        True
    """


class FaultFailed(HighwaterError):
    """A fault was not injected, had no effect, or could not be healed.

    Example:
        >>> try:
        ...     CLUSTER.faults.kill("node:9")
        ... except highwater.FaultFailed as error:
        ...     print("there is no node 9" in str(error))
        True
    """


class EngineUnavailable(HighwaterError):
    """DuckDB or Spark cannot be used on this machine; the text says what is missing.

    Example:
        >>> issubclass(highwater.EngineUnavailable, highwater.HighwaterError)
        True
    """


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the private packages into the public ones."""
    from checkers.engines.engine import EngineError
    from checkers.expectations import BadExpectation
    from checkers.history.history import HistoryError
    from harness.plans.errors import PlanError
    from harness.recording.journal import JournalError
    from harness.recording.store import StoreError
    from nemesis.base import NemesisError

    try:
        yield
    except (StoreError, HistoryError, JournalError) as error:
        raise RunUnreadable(str(error)) from error
    except (PlanError, NemesisError) as error:
        raise InvalidPlan(str(error)) from error
    except BadExpectation as error:
        raise InvalidRequest(str(error)) from error
    except EngineError as error:
        raise EngineUnavailable(str(error)) from error
