"""A harness that makes faults and then waits to be killed: `python -m ...ssh_doomed PLACE`.

Node 1 receives nothing from node 2, node 2's disk is stalled, node 3's process is paused.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.recording.journal import Journal
from harness.targets.ssh.install import Software
from harness.targets.ssh.inventory import load
from harness.targets.ssh.power import PowerSwitch
from harness.targets.ssh.target import SshOptions, SshTarget
from nemesis.hosts import Cut

RUN_ID: Final = f"doomed-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
"""A different id for each test process, because packet rules on this machine are named by it."""
REGISTRY: Final = "unfinished"
READY: Final = "all is broken"
_BEAT: Final = "date +%s.%N > data/new && mv data/new data/beat"


def target_of(
    place: Path, journal: Journal, switches: Mapping[int, PowerSwitch] | None = None
) -> SshTarget:
    """The target on the inventory in `place`, its run there too."""
    wanted = SshOptions(software=Software(module="nodes"), clocks=True, root=True)
    inventory = load(place / "lab.toml")
    return SshTarget(RUN_ID, place / RUN_ID, (1, 2, 3), journal, inventory, wanted, switches)


def begin(target: SshTarget) -> None:
    """Start the target, and a process on each node that writes to its disk ten times a second."""
    target.up()
    for node in target.node_ids():
        home = target.home(node)
        argv = ("sh", "-c", f"cd {home}; while :; do {_BEAT}; sleep 0.1; done")
        target.set_command(node, argv, target.environment(node), home / "node.log")
        target.start(node)


def break_all(target: SshTarget) -> None:
    """Make the faults of the module's docstring."""
    target.links.block(Cut(2, 1))
    target.disks.freeze(2)
    target.pause(3)
    target.clocks.skew(1, "layer", 60_000)


def main(place: Path) -> None:
    """Make the faults, print READY, and wait."""
    with Journal.create(
        place / RUN_ID / "journal.jsonl", run_id=RUN_ID, registry=place / REGISTRY
    ) as journal:
        target = target_of(place, journal)
        begin(target)
        break_all(target)
        print(READY, flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
