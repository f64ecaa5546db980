"""Scripted schedules for the simulated world, each after a real bug, down to single messages.

Each for a mutant (`harness/zoo/mutants`): the unmodified broker comes through, the
mutant breaks an invariant, loses something, or does not do what it must. Many of them need what
faults of real processes cannot time; some schedules show several bugs.

    python -m harness.zoo.schedules [--seeds 0..20] [NAME ...]

plays them all, with and without their mutants.
"""

from collections.abc import Mapping
from typing import Final

from harness.systems.node_roles import Layout
from harness.zoo.schedules import disks, partitions, producers, quorum
from harness.zoo.schedules.stage import PATIENT, Schedule

SESSION_MS: Final = 12_000
IMPATIENT: Final = {"replica.lag.time.max.ms": 500}
"""Who lags leaves the ISR before a client gives up."""


def _three() -> Layout:
    return Layout.combined([1, 2, 3])


def _split() -> Layout:
    return Layout.split(controllers=3, brokers=3)


_ZOMBIE: Final = Schedule(play=partitions.zombie, overrides=PATIENT)
_UNKNOWN_EPOCHS: Final = Schedule(play=partitions.unknown_epochs, overrides=PATIENT, settles_s=5)
_LEADER_DIES: Final = Schedule(play=partitions.leader_dies, overrides=IMPATIENT)
_LEADER_ALONE: Final = Schedule(play=partitions.leader_alone, overrides=IMPATIENT)
_REPEAT: Final = Schedule(play=producers.repeat)

SCHEDULES: Final[Mapping[str, Schedule]] = {
    "accepts_gaps": Schedule(play=producers.gap),
    "ack_before_replication": Schedule(play=partitions.leader_dies_first, overrides=PATIENT),
    "acknowledges_before_flush": Schedule(play=disks.flushed_first),
    "beats_while_the_disk_hangs": Schedule(play=disks.hanging_disk),
    "believes_the_cache": Schedule(play=disks.failed_sync),
    "commits_below_min_isr": _LEADER_ALONE,
    "commits_by_proposed_isr": _LEADER_ALONE,
    "commits_earlier_epochs": Schedule(play=quorum.unheard_of, layout=_three),
    "counts_zombies": _ZOMBIE,
    "elects_who_lags": Schedule(play=partitions.outsider, overrides=IMPATIENT),
    "forgets_sequences": _REPEAT,
    "goes_on_after_errors": Schedule(play=disks.failing_disk),
    "isr_of_one": _LEADER_ALONE,
    "joins_below_epoch_start": Schedule(play=partitions.late_follower, overrides=IMPATIENT),
    "last_replica_standing": Schedule(play=partitions.last_one, overrides=IMPATIENT),
    "leads_a_damaged_log": Schedule(
        play=partitions.damaged_log,
        overrides={"eligible.leader.replicas.version": 0},
        settles_s=0,
    ),
    "leads_an_epoch_twice": Schedule(play=quorum.lost_tail, layout=_three),
    "leads_without_majority": Schedule(play=quorum.minority_leads, layout=_split),
    "metadata_in_page_cache": _LEADER_DIES,
    "never_compares_epochs": _LEADER_DIES,
    "readds_the_fenced": Schedule(play=partitions.without_controller),
    "refuses_repeats": _REPEAT,
    "same_leader_skips_truncation": _ZOMBIE,
    "serves_zombies": _ZOMBIE,
    "skips_unknown_epochs": _UNKNOWN_EPOCHS,
    "stands_without_asking": Schedule(play=quorum.voter_comes_back, layout=_three),
    "takes_high_watermark_first": _UNKNOWN_EPOCHS,
    "truncate_to_high_watermark": _LEADER_DIES,
    "trusts_old_incarnations": Schedule(
        play=partitions.late_request,
        overrides={
            "broker.session.timeout.ms": SESSION_MS,
            "controller.quorum.request.timeout.ms": SESSION_MS,
        },
    ),
    "votes_by_node_id": Schedule(play=quorum.empty_voter, layout=_split, settles_s=0),
    "votes_in_memory": Schedule(play=quorum.first_election, layout=_three),
}
"""By the name of the mutant."""
