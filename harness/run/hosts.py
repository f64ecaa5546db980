"""Collects what faults may act on in a run: the target's machines and the administration."""

from pathlib import Path

from harness.targets.base import Target
from harness.workloads.app.processes import FOLDER, ProgramProcesses
from nemesis.administration import Administration
from nemesis.base import ClusterView
from nemesis.hosts import Clocks, Hosts
from nemesis.programs import NoProgram


def hosts_of(
    target: Target,
    view: ClusterView,
    cluster: Administration,
    clocks: Clocks | None = None,
    run_dir: Path | None = None,
) -> Hosts:
    """Return everything that the nemesis of a run may break. `clocks` replace the target's. The
    program that the run tests, if any, is in `run_dir`."""
    return Hosts(
        processes=target,
        clients=target.clients,
        links=target.links,
        disks=target.disks,
        clocks=clocks or target.clocks,
        power=target.power,
        cluster=cluster,
        view=view,
        programs=NoProgram() if run_dir is None else ProgramProcesses(run_dir / FOLDER),
    )
