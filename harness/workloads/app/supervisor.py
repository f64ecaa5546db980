"""Runs the program and reads its output until the stop, then waits for the rest of the output.

The rows that it adds to the history: `app-start` and `app-exit` of each instance (client: the
instance's; generation: the number of the start; error: how it ended). `app-output`, a row for each
element (partition and offset: its place; value: of its input; error: why there is none), as soon as
it is found; `app-reread`: the rows of elements up to here do not count (`recorded`). `app-end`:
the output was read (ok: to its end, and the program had its time; info: not; error: why;
invoke_ns: the last input had been sent; complete_ns: the program had all output, or its time was
over).
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Message

from harness.plans.app_workload import AppWorkload
from harness.recording.history import HistoryWriter
from harness.targets.docker import daemon
from harness.workloads.app import environment
from harness.workloads.app.commands import Commands
from harness.workloads.app.elements import Extraction
from harness.workloads.app.instances import Instances
from harness.workloads.app.outputs.base import Elements, OutputReader, TooMuchOutput
from harness.workloads.app.outputs.file import FileOutput
from harness.workloads.app.outputs.http import HttpOutput
from harness.workloads.app.outputs.sql import SqlOutput
from harness.workloads.app.outputs.topic import TopicOutput, TopicReader, make_topic
from harness.workloads.app.processes import FOLDER, clocks_of
from harness.workloads.app.recorded import OutputRows
from harness.workloads.app.started import ProgramFailed, Starter
from harness.workloads.clients import access
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.text_payload import MIN_BYTES, Ids, TextPayload
from harness.workloads.further_config import FurtherConfig

TURN_S: Final = 0.05
POLL_S: Final = 0.2
CHECK_S: Final = 1.0
"""How often the missing output is counted at the end."""
QUIET_S: Final = 1.5
"""How long the program goes on when it has all output: it may write some of it again."""
STOPPED: Final = "the run was stopped first"
START: Final = "app-start"
EXIT: Final = "app-exit"
END: Final = "app-end"


class Supervisor:
    """One program of a run."""

    def __init__(self, config: FurtherConfig, wanted: AppWorkload, writer: HistoryWriter) -> None:
        """Raises NoTopic, ValueError, OSError if there can be no such output."""
        self._config = config
        self._wanted = wanted
        self._writer = writer
        self._client = config.first_client
        self.tally = Tally()
        self.notes: list[str] = []
        self._folder = Path(config.history_dir).parent / FOLDER
        self._folder.mkdir(exist_ok=True)
        self._access = access.of_this_process()
        self.output = self._reader(Ids(config.run_id))
        self._rows = OutputRows(self.output.elements, writer, self._client)
        self._variables = {
            environment.BOOTSTRAP: config.bootstrap,
            environment.INPUT: wanted.input,
            environment.OUTPUT: self.output.address,
            environment.GROUP: wanted.group,
            environment.RUN: config.run_id,
            **environment.credentials(self._access.properties),
        }
        self._clocks = clocks_of(self._folder, lambda _: None)
        self._instances = Instances(
            self._folder,
            wanted.instances,
            start=self._commands() if wanted.image is None else self._containers(wanted.image),
            base_ns=config.base_ns,
            on_change=self._changed,
        )
        for number in range(wanted.instances + 1):
            writer.start(self._client + number)

    def _commands(self) -> Starter:
        namespace = self._config.namespace
        return Commands(
            command=self._command_of,
            environment=self._environment_of,
            directory=Path(self._wanted.directory),
            namespace=None if namespace is None else Path(namespace),
        )

    def _containers(self, image: str) -> Starter:
        """The container that holds the program's network has the name of its namespace."""
        # Here, because other programs need neither Docker nor the network's tools.
        from harness.workloads.app.containers import Containers

        namespace, authority = self._config.namespace, self._access.properties.get(access.AUTHORITY)
        return Containers(
            address=daemon.chosen(),
            image=image,
            command=self._command_of,
            environment=lambda n: self._added({}, n),
            network=None if namespace is None else Path(namespace).name,
            run_id=self._config.run_id,
            shared=[*self._wanted.shared, *([Path(authority)] if authority else [])],
        )

    def _command_of(self, number: int) -> list[str]:
        return [environment.replaced(each, self._named(number)) for each in self._wanted.command]

    def _environment_of(self, number: int) -> dict[str, str]:
        base = {name: text for name, text in os.environ.items() if name != access.VARIABLE}
        made = self._added(base, number)
        return self._clocks.environment(number, made) if self._config.clocks else made

    def _added(self, base: Mapping[str, str], number: int) -> dict[str, str]:
        return environment.of_instance(base, self._wanted.environment, self._named(number))

    def _named(self, number: int) -> dict[str, str]:
        return {**self._variables, environment.INSTANCE: str(number)}

    def _reader(self, ids: Ids) -> OutputReader:
        config, sink = self._config, self._wanted.sink
        elements = Elements(Extraction(sink, ids), self._writer.now_ns)
        if sink.topic is not None:
            partitions = make_topic(
                config.bootstrap, self._access, sink.topic, sink.partitions, sink.replication_factor
            )
            return TopicOutput(config.bootstrap, self._access, sink.topic, partitions, elements)
        if sink.file is not None:
            return FileOutput(Path(self._wanted.directory, sink.file), elements)
        if sink.sql is not None and sink.query is not None:
            return SqlOutput(sink.sql, sink.query, elements, self._writer.now_ns)
        return HttpOutput(elements, config.address)

    def _changed(self, instance: int, what: str, start: int) -> None:
        started = what == "start"
        self._record(
            START if started else EXIT, None if started else what, instance=instance, start=start
        )

    def _record(self, f: str, error: str | None, *, instance: int, start: int) -> None:
        now_ns = self._writer.now_ns()
        self._writer.record(
            self._writer.next_op(), self._client + instance, f, "ok", now_ns, now_ns,
            error=error, generation=start,
        )  # fmt: skip

    def run(self, stopped: Callable[[], bool], every_turn: Callable[[], None]) -> str | None:
        """Run until `stopped`; return what makes the run useless, in words, or None."""
        due_s = 0.0
        try:
            while not stopped():
                self._instances.tend(any_output=bool(self.output.elements.values))
                if time.monotonic() >= due_s:
                    self._poll()
                    due_s = time.monotonic() + POLL_S
                every_turn()
                time.sleep(TURN_S)
        except (ProgramFailed, TooMuchOutput) as error:
            return str(error)
        return None

    def _poll(self) -> None:
        self.output.poll()
        self._rows.record()
        count = len(self.output.elements.by_place)
        self.tally.acked = self.tally.read = count
        self.tally.last_error = self.output.problem

    def finish(
        self, problem: str | None, hurry: Callable[[], bool], every_turn: Callable[[], None]
    ) -> str | None:
        """Let the program finish, unless there was a problem before or `hurry`, stop it, and record
        its output; return what makes the run useless, in words, or None."""
        begun_ns, why = self._writer.now_ns(), None
        try:
            why = problem or self._drain(hurry, every_turn)
        except (ProgramFailed, TooMuchOutput) as error:
            why = problem = str(error)
        over_ns = self._writer.now_ns()
        self.notes += self._instances.stop(self._wanted.stop_s)
        try:
            if problem is None:
                self.output.finish()
        except TooMuchOutput as error:
            problem = str(error)
        if problem is not None:
            self._rows.discard()
        elif self.output.problem is not None:
            self.notes.append(f"the program's output could not be read: {self.output.problem}")
        elif not self.output.elements.by_place:
            self.notes.append(f"the program wrote nothing to {self._wanted.sink.text}")
        if problem is None:
            self._rows.finish()
        self._record_end(begun_ns, over_ns, problem or self.output.problem or why)
        self.output.close()
        return problem

    def _drain(self, hurry: Callable[[], bool], every_turn: Callable[[], None]) -> str | None:
        """Wait for the output of all inputs, at most `lag_s`; return why it was not possible."""
        if hurry():
            return STOPPED
        deadline_s = time.monotonic() + self._wanted.lag_s
        wanted, missing = self._inputs()
        if missing is not None:
            return missing
        quiet_s = None
        while (now_s := time.monotonic()) < deadline_s:
            if hurry():
                return STOPPED
            self._instances.tend(any_output=True)
            self._poll()
            every_turn()
            quiet_s = (quiet_s or now_s) if wanted <= self.output.elements.values else None
            if quiet_s is not None and now_s - quiet_s >= QUIET_S:
                break
            time.sleep(POLL_S)
        return None

    def _inputs(self) -> tuple[set[int], str | None]:
        """Return the values in the input topic, and why they could not all be read."""
        found: set[int] = set()
        codec = TextPayload(self._config.run_id, MIN_BYTES)

        def take(message: Message) -> None:
            value, _ = codec.decode(message.value())
            if value is not None:
                found.add(value)

        topic, config = self._wanted.input, self._config
        reader = TopicReader(config.bootstrap, self._access, topic, config.partitions[topic], take)
        missing = reader.to_the_end(self._wanted.lag_s)
        reader.close()
        return found, missing

    def _record_end(self, begun_ns: int, over_ns: int, why: str | None) -> None:
        writer = self._writer
        writer.record(
            writer.next_op(), self._client, END, "ok" if why is None else "info", begun_ns,
            over_ns, error=why,
        )  # fmt: skip
        for number in range(self._wanted.instances + 1):
            writer.end(self._client + number)
