"""Scripted schedules for the simulated world, each after a real bug, down to single messages. A
schedule belongs to the mutant of the same name (`harness/zoo/mutants`): the unmodified broker
passes it; the mutant breaks an invariant, loses records, or does not do what it must.

Many bugs need message timing that faults of real processes cannot produce. Some schedules show
several bugs.

    python -m harness.zoo.schedules [--seeds 0..20] [NAME ...]

plays them all, with and without their mutants.
"""

from collections.abc import Mapping
from typing import Final

from harness.systems.node_roles import Layout
from harness.zoo.schedules import (
    compaction,
    coordinators,
    disks,
    groups,
    old_plane,
    partitions,
    producers,
    quorum,
    transactions,
)
from harness.zoo.schedules.clients import ONE_COORDINATOR
from harness.zoo.schedules.old_plane import OldPlaneSchedule
from harness.zoo.schedules.stage import PATIENT, MessageSchedule

SESSION_MS: Final = 12_000
IMPATIENT: Final = {"replica.lag.time.max.ms": 500}
"""A follower that lags leaves the ISR before a client gives up."""


def _three() -> Layout:
    return Layout.combined([1, 2, 3])


def _split() -> Layout:
    return Layout.split(controllers=3, brokers=3)


_ZOMBIE: Final = MessageSchedule(play=partitions.follower_in_old_epoch, overrides=PATIENT)
_UNKNOWN_EPOCHS: Final = MessageSchedule(
    play=partitions.unknown_epochs, overrides=PATIENT, settles_s=5
)
_LEADER_DIES: Final = MessageSchedule(play=partitions.leader_dies, overrides=IMPATIENT)
_LEADER_ALONE: Final = MessageSchedule(play=partitions.leader_alone, overrides=IMPATIENT)
_KEYS: Final = MessageSchedule(play=compaction.keys, overrides=compaction.OFTEN, settles_s=0)
_OPEN_FOR_LONG: Final = MessageSchedule(
    play=transactions.open_for_long,
    overrides={
        **ONE_COORDINATOR,
        "producer.id.expiration.ms": 3000,
        "log.retention.check.interval.ms": 1000,
    },
)
_REPEAT: Final = MessageSchedule(play=producers.repeat)

SCHEDULES: Final[Mapping[str, MessageSchedule | OldPlaneSchedule]] = {
    **old_plane.SCHEDULES,
    "aborts_without_fencing": MessageSchedule(
        play=transactions.timed_out, overrides=ONE_COORDINATOR
    ),
    "accepts_earlier_markers": MessageSchedule(
        play=transactions.late_marker, overrides=ONE_COORDINATOR
    ),
    "accepts_gaps": MessageSchedule(play=producers.gap),
    "accepts_old_generations": MessageSchedule(
        play=groups.old_generation, overrides=ONE_COORDINATOR
    ),
    "ack_before_replication": MessageSchedule(play=partitions.leader_dies_first, overrides=PATIENT),
    "acknowledges_before_flush": MessageSchedule(play=disks.flushed_first),
    "answers_after_its_term": MessageSchedule(
        play=coordinators.coordinator_is_deposed,
        overrides={
            **ONE_COORDINATOR,
            **PATIENT,
            "broker.session.timeout.ms": 1000,
            "offsets.commit.timeout.ms": 20000,
        },
    ),
    "answers_before_commit": MessageSchedule(
        play=coordinators.coordinator_dies, overrides={**ONE_COORDINATOR, **PATIENT}
    ),
    "answers_before_stable": MessageSchedule(
        play=groups.unstable_offset, overrides=ONE_COORDINATOR
    ),
    "beats_while_the_disk_hangs": MessageSchedule(play=disks.hanging_disk),
    "begins_without_asking": MessageSchedule(
        play=transactions.late_batch, overrides=ONE_COORDINATOR
    ),
    "believes_the_cache": MessageSchedule(play=disks.failed_sync),
    "cleans_uncommitted_records": _KEYS,
    "commits_below_min_isr": _LEADER_ALONE,
    "commits_by_proposed_isr": _LEADER_ALONE,
    "commits_earlier_epochs": MessageSchedule(
        play=quorum.leader_dies_before_hearing_of_commit, layout=_three
    ),
    "commits_in_order_of_markers": MessageSchedule(
        play=groups.later_commit, overrides=ONE_COORDINATOR
    ),
    "counts_late_fetches": MessageSchedule(
        play=partitions.late_fetch,
        overrides={**PATIENT, "broker.session.timeout.ms": 1000, "replica.fetch.max.bytes": 1},
    ),
    "counts_zombies": _ZOMBIE,
    "drops_markers_early": _KEYS,
    "drops_the_last_batch": _KEYS,
    "drops_tombstones_early": _KEYS,
    "elects_who_lags": MessageSchedule(
        play=partitions.only_lagging_replica_left, overrides=IMPATIENT
    ),
    "ends_the_next_transaction": MessageSchedule(
        play=transactions.late_end, overrides=ONE_COORDINATOR
    ),
    "expires_pending_offsets": MessageSchedule(
        play=groups.pending_for_long,
        overrides={
            **ONE_COORDINATOR,
            "offsets.retention.minutes": 1,
            "offsets.retention.check.interval.ms": 1000,
        },
    ),
    "forgets_aborted_transactions": _KEYS,
    "forgets_added_partitions": MessageSchedule(
        play=coordinators.dies_in_a_transaction, overrides=ONE_COORDINATOR
    ),
    "forgets_epochs_of_emptied_logs": MessageSchedule(
        play=partitions.emptied_log_of_a_lost_epoch,
        overrides={**IMPATIENT, "log.retention.check.interval.ms": 5000},
        settles_s=0,
    ),
    "forgets_open_transactions": _OPEN_FOR_LONG,
    "forgets_restarted_static_members": MessageSchedule(
        play=groups.restarted_static_member, overrides=ONE_COORDINATOR
    ),
    "forgets_sequences": _REPEAT,
    "goes_on_after_errors": MessageSchedule(play=disks.failing_disk),
    "hands_over_early": MessageSchedule(play=groups.handover, overrides=ONE_COORDINATOR),
    "isr_of_one": _LEADER_ALONE,
    "joins_below_epoch_start": MessageSchedule(play=partitions.late_follower, overrides=IMPATIENT),
    "keeps_offsets_of_deleted_groups": MessageSchedule(
        play=groups.deleted_group, overrides=ONE_COORDINATOR
    ),
    "keeps_truncated_transactions": MessageSchedule(
        play=transactions.truncated_beginning, overrides={**ONE_COORDINATOR, **PATIENT}
    ),
    "last_replica_standing": MessageSchedule(
        play=partitions.last_in_sync_replica_loses_power, overrides=IMPATIENT
    ),
    "leads_a_damaged_log": MessageSchedule(
        play=partitions.damaged_log,
        overrides={"eligible.leader.replicas.version": 0},
        settles_s=0,
    ),
    "leads_an_epoch_twice": MessageSchedule(play=quorum.lost_tail, layout=_three),
    "leads_without_majority": MessageSchedule(play=quorum.minority_leads, layout=_split),
    "loads_only_whole_histories": MessageSchedule(
        play=coordinators.many_transactions, overrides=ONE_COORDINATOR
    ),
    "maps_the_keys_of_markers": MessageSchedule(
        play=compaction.keys_of_markers, overrides=compaction.OFTEN, settles_s=0
    ),
    "metadata_in_page_cache": _LEADER_DIES,
    "never_compares_epochs": _LEADER_DIES,
    "overlooks_emptied_logs": MessageSchedule(
        play=partitions.emptied_log,
        overrides={**IMPATIENT, "log.retention.check.interval.ms": 5000},
        settles_s=0,
    ),
    "readds_the_fenced": MessageSchedule(play=partitions.follower_without_controller),
    "reads_into_open_transactions": _OPEN_FOR_LONG,
    "refuses_a_repeated_end": MessageSchedule(
        play=transactions.repeated_end, overrides=ONE_COORDINATOR
    ),
    "refuses_repeats": _REPEAT,
    "same_leader_skips_truncation": _ZOMBIE,
    "serves_zombies": _ZOMBIE,
    "skips_unknown_epochs": _UNKNOWN_EPOCHS,
    "stands_without_asking": MessageSchedule(play=quorum.voter_comes_back, layout=_three),
    "starts_at_old_snapshots": MessageSchedule(
        play=compaction.forgotten_producer, overrides=compaction.FORGETFUL, settles_s=0
    ),
    "takes_high_watermark_first": _UNKNOWN_EPOCHS,
    "truncate_to_high_watermark": _LEADER_DIES,
    "trusts_an_old_verification": MessageSchedule(
        play=transactions.marker_before_append, overrides=ONE_COORDINATOR
    ),
    "trusts_old_incarnations": MessageSchedule(
        play=partitions.late_request,
        overrides={
            "broker.session.timeout.ms": SESSION_MS,
            "controller.quorum.request.timeout.ms": SESSION_MS,
        },
    ),
    "votes_by_node_id": MessageSchedule(play=quorum.empty_voter, layout=_split, settles_s=0),
    "votes_in_memory": MessageSchedule(play=quorum.first_election, layout=_three),
}
"""Schedules by the name of their mutant."""
