"""A client program that answers what a test says."""

from collections import defaultdict
from typing import Any

from harness.workloads.clients.program.process import Handler, ProgramFailed
from harness.workloads.clients.program.protocol import VERSION, Answer, Event, Failure, Values

RETRY = Failure(name="REQUEST_TIMED_OUT", code=7, then="retry")
ABORT = Failure(name="TRANSACTION_ABORTABLE", code=120, then="abort")
FENCED = Failure(name="PRODUCER_FENCED", code=90, then="close")
DEFINITE = Failure(name="INVALID_TXN_STATE", code=48, definite=True, then="close")


class ScriptedProgram:
    """Stands for a `Program`. Without an answer of the test, every command is done."""

    def __init__(self, protocol: int = VERSION) -> None:
        self.protocol = protocol
        self.asked: list[tuple[str, Values]] = []
        """All commands and their values, in order."""
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        self._before: dict[str, list[Event]] = defaultdict(list)
        self.waiting: list[Event] = []
        """Events that wait for the client."""

    def answer(self, do: str, *given: Failure | Values | None) -> None:
        """Set the next answers to a command: why it was not done, or its values."""
        for each in given:
            failed = each if isinstance(each, Failure) else None
            values: Any = {} if failed or each is None else each
            self._answers[do].append(Answer(id=1, values=values, failure=failed))

    def before(self, do: str, *events: Event) -> None:
        """Set what happens before the next answer to a command."""
        self._before[do] += events

    def ask(
        self,
        client: int,
        do: str,
        values: Values,
        *,
        within_s: float,
        handle: Handler | None = None,
    ) -> Answer:
        """See `Program`."""
        self.asked.append((do, values))
        for event in self._before.pop(do, []):
            assert handle is not None
            handle(event)
        answers = self._answers[do]
        return answers.pop(0) if answers else Answer(id=1)

    def tell(self, client: int, do: str, values: Values) -> None:
        """See `Program`."""
        self.asked.append((do, values))

    def events(self, client: int, timeout_s: float) -> list[Event]:
        """See `Program`."""
        found, self.waiting = self.waiting, []
        return found

    def fail(self, why: str) -> ProgramFailed:
        """See `Program`."""
        return ProgramFailed(why)

    def commands(self) -> list[str]:
        """All commands so far, by name."""
        return [do for do, _ in self.asked]
