"""Scripted schedules for the simulated world, each after a real bug, down to single messages.

Named after the mutants that they show (`tests/mutants`): the unmodified broker comes through, the
mutant breaks an invariant, loses something, or does not do what it must. These are the mutants that
need more than faults of real processes can time.

    python -m tests.harness.targets.sim.schedules [--seeds 0..20] [NAME ...]

plays them all, with and without their mutants.
"""

from collections.abc import Mapping
from typing import Final

from harness.systems.layout import Layout
from tests.harness.targets.sim.schedules import disks, partitions, producers, quorum
from tests.harness.targets.sim.schedules.stage import PATIENT, Schedule

SESSION_MS: Final = 12_000


def _three() -> Layout:
    return Layout.combined([1, 2, 3])


def _split() -> Layout:
    return Layout.split(controllers=3, brokers=3)


SCHEDULES: Final[Mapping[str, Schedule]] = {
    "counts_zombies": Schedule(play=partitions.counts_zombies, overrides=PATIENT),
    "joins_below_epoch_start": Schedule(
        play=partitions.joins_below_epoch_start, overrides={"replica.lag.time.max.ms": 500}
    ),
    "trusts_old_incarnations": Schedule(
        play=partitions.trusts_old_incarnations,
        overrides={
            "broker.session.timeout.ms": SESSION_MS,
            "controller.quorum.request.timeout.ms": SESSION_MS,
        },
    ),
    "takes_high_watermark_first": Schedule(
        play=partitions.takes_high_watermark_first, overrides=PATIENT
    ),
    "leads_a_damaged_log": Schedule(
        play=partitions.leads_a_damaged_log,
        overrides={"eligible.leader.replicas.version": 0},
        settles=False,
    ),
    "leads_an_epoch_twice": Schedule(play=quorum.leads_an_epoch_twice, layout=_three),
    "votes_in_memory": Schedule(play=quorum.votes_in_memory, layout=_three),
    "commits_earlier_epochs": Schedule(play=quorum.commits_earlier_epochs, layout=_three),
    "leads_without_majority": Schedule(play=quorum.leads_without_majority, layout=_split),
    "stands_without_asking": Schedule(play=quorum.stands_without_asking, layout=_three),
    "goes_on_after_errors": Schedule(play=disks.goes_on_after_errors),
    "beats_while_the_disk_hangs": Schedule(play=disks.beats_while_the_disk_hangs),
    "accepts_gaps": Schedule(play=producers.accepts_gaps),
    "refuses_repeats": Schedule(play=producers.refuses_repeats),
}
"""By the name of the mutant."""
