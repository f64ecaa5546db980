"""The process with the clients of a topic or of a further workload, which a client program runs.

python -m harness.workloads.program CONFIG.json

The program is a child of this process, in the same process group. It ends when this process does.
"""

import sys
from pathlib import Path

from harness.workloads import threads
from harness.workloads.clients import access
from harness.workloads.clients.program.consumer import RecordingConsumer, open_consumer
from harness.workloads.clients.program.process import Program, ProgramFailed
from harness.workloads.clients.program.producer import RecordingProducer, open_producer
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.configs import load
from harness.workloads.further.program.run import ProgramFurther
from harness.workloads.further.threads.run import Further


class ProgramClients:
    """Makes the clients of a workload in a program."""

    def __init__(self, config: ClientConfig, program: Program) -> None:
        self._options = config.producer_options(access.of_this_process())
        self._program = program

    def producer(self, sends: Sends) -> RecordingProducer:
        """Make a producer."""
        return RecordingProducer(self._program, open_producer(self._options), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """Make a consumer."""
        return RecordingConsumer(self._program, open_consumer(self._options, reads), reads)


def main(argv: list[str]) -> int:
    """Run the process; `argv` has the path of its configuration. Return the exit code."""
    try:
        program = Program(load(Path(argv[1])).command)
    except ProgramFailed as error:
        print(error, file=sys.stderr)
        return 1
    try:
        program.introduce()
        return threads.main(
            argv,
            lambda config: ProgramClients(config, program),
            lambda config: Further(config, lambda given, _: ProgramFurther(given, program)),
        )
    except ProgramFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        program.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
