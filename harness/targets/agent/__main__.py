"""The agent's commands, run on its own machine: `python -m harness.targets.agent COMMAND ...`

serve HOME            undo what earlier agents left, prepare the machine, answer calls
serve-again HOME      the same after a boot of the machine, with the node's data on its disk
undo HOME             end the agent of HOME, undo all that it made, and print that as JSON
lacking ABILITY...    print the abilities that this machine lacks, with reasons, as JSON
"""

import json
import logging
import socket
import sys
from pathlib import Path

from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.agent import calls
from harness.targets.agent.machine import JOURNAL, REGISTRY, SETTINGS, Machine, Settings
from harness.targets.agent.relay import FAILED, LOG, SOCKET
from harness.targets.agent.server import AgentServer, Session
from harness.targets.linux import clean
from harness.targets.linux.clean import CleanOutcome
from nemesis.faults.fault import Ability

log = logging.getLogger(__name__)


def serve(home: Path, *, booted: bool = False) -> None:
    """Run the agent of a home directory, which contains the settings. Raises OSError, TargetError.

    `booted`: the home had an agent before the machine's last boot.
    """
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(filename=home / LOG, level=logging.INFO, format=form)
    try:
        registry = home.parent / REGISTRY
        registry.mkdir(exist_ok=True)
        settings = Settings.model_validate_json((home / SETTINGS).read_bytes())
        # An existing journal is taken over before `clean`, which would undo it; a new one is made
        # after `clean`.
        held = Journal.take_over(home / JOURNAL, registry=registry) if booted else None
        for left in clean.clean(registry=registry):
            if left.outcome is not CleanOutcome.ALIVE:
                log.info("left by an earlier agent: %s", left)
        journal = held or Journal.create(home / JOURNAL, run_id=settings.run_id, registry=registry)
        machine = Machine(home, settings, journal)
        try:
            if booted:
                machine.up_after_boot()
            else:
                machine.up()
            AgentServer(machine, home / SOCKET, dead_man_s=settings.dead_man_s).serve()
        except BaseException:
            machine.down(keep_data=True)
            raise
    except BaseException as error:
        log.exception("the agent failed")
        if home.exists():
            (home / FAILED).write_text(str(error) or type(error).__name__)
        raise


def undo(home: Path) -> None:
    """Print {"removed": [...], "problems": [...]}."""
    removed, problems = [], []
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(home / SOCKET))
            connection.sendall(calls.request("undo", Session.end, (), {"keep_data": False}))
            with connection.makefile("rb") as lines:
                no_reply = '{"said": "the agent ended without an answer"}'
                reply = json.loads(lines.readline() or no_reply)
        if "said" in reply:
            problems.append(reply["said"])
        else:
            removed.append(f"agent of {home} and all that it made")
    except OSError:
        if (home / JOURNAL).exists():
            done = clean.undo(home / JOURNAL, registry=home.parent / REGISTRY)
            removed += done.removed
            problems += done.problems
            if done.outcome is CleanOutcome.ALIVE:
                problems.append(f"the agent of {home} runs, but does not answer on its socket")
    print(json.dumps({"removed": removed, "problems": problems}))


def main(arguments: list[str]) -> None:
    """Run one command."""
    match arguments:
        case ["serve", home]:
            serve(Path(home))
        case ["serve-again", home]:
            serve(Path(home), booted=True)
        case ["undo", home]:
            undo(Path(home))
        case ["lacking", *wanted]:
            print(json.dumps(abilities.missing_abilities(Ability(each) for each in wanted)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
