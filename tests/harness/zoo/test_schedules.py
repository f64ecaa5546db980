"""Schedules of single messages: the unmodified broker passes them, the mutants do not."""

import re

import pytest

from harness.simulation.world.world import SimulationError
from harness.zoo import mutants
from harness.zoo.schedules import SCHEDULES
from harness.zoo.schedules.stage import ExpectationFailed

pytestmark = pytest.mark.slow

SEED = 1
CAUGHT_BY = {
    "aborts_without_fencing": "committed reads: ",
    "accepts_earlier_markers": "markers-end-earlier-epochs: ",
    "accepts_gaps": "sequences: ",
    "accepts_old_generations": "old generation: ",
    "ack_before_replication": "acknowledged-is-committed",
    "acknowledges_before_flush": "isr-has-all-committed: ",
    "answers_after_its_term": "lost commit: ",
    "answers_before_commit": "lost commit: ",
    "answers_before_stable": "stable offset: ",
    "beats_while_the_disk_hangs": "not within 15 s: somebody else leads",
    "begins_without_asking": "transactions-end: ",
    "believes_the_cache": "flushed-is-on-disk",
    "cleans_uncommitted_records": "compaction-keeps-the-latest: ",
    "commits_below_min_isr": "commits-with-enough: ",
    "commits_by_proposed_isr": "isr-has-all-committed: ",
    "commits_earlier_epochs": "commits-its-own-epoch: ",
    "commits_in_order_of_markers": "committed offset: ",
    "compares_leader_epochs": "refused a record",
    "counts_late_fetches": "isr-has-all-committed: ",
    "counts_zombies": "isr-has-all-committed: ",
    "drops_markers_early": "compaction-keeps-markers: ",
    "drops_the_last_batch": "compaction-keeps-producers: ",
    "drops_tombstones_early": "tombstones-stay-for-their-time: ",
    "elects_from_memory": "acknowledged and lost: ",
    "elects_who_lags": "isr-has-all-committed: ",
    "ends_the_next_transaction": "committed reads: ",
    "expires_pending_offsets": "pending-offsets-stay: ",
    "forgets_aborted_transactions": "compaction-keeps-the-latest: ",
    "forgets_added_partitions": "transactions-end: ",
    "forgets_epochs_of_emptied_logs": "a replica leads without acknowledged records",
    "forgets_open_transactions": "last-stable-offset: ",
    "forgets_restarted_static_members": "stable-members-are-remembered: ",
    "forgets_sequences": "sequences: ",
    "goes_on_after_errors": "still uses a log",
    "hands_over_early": "one-owner: ",
    "isr_of_one": "commits-with-enough: ",
    "joins_below_epoch_start": "isr-has-all-committed: ",
    "keeps_offsets_of_deleted_groups": "committed offset: ",
    "keeps_truncated_transactions": "last-stable-offset: ",
    "last_replica_standing": "no-fenced-member: ",
    "leads_a_damaged_log": "leader-has-all-committed: ",
    "leads_an_epoch_twice": "log-matching: ",
    "leads_without_majority": "still leads, without a majority",
    "loads_only_whole_histories": "coordinators-replay: ",
    "maps_the_keys_of_markers": "compaction-keeps-the-latest: ",
    "metadata_in_page_cache": "majority-has-committed: ",
    "misses_quick_restarts": "not within 30 s: it knows its partitions",
    "never_compares_epochs": "committed-stays: ",
    "obeys_deposed_controllers": "not within 30 s: broker 2 is known",
    "overlooks_emptied_logs": "a replica leads without acknowledged records",
    "overwrites_states": "acknowledged and lost: ",
    "readds_the_fenced": "no-fenced-member: ",
    "reads_into_open_transactions": "last-stable-offset: ",
    "refuses_a_repeated_end": "repeated end: ",
    "refuses_repeats": "a repeated batch is answered",
    "same_leader_skips_truncation": "isr-has-all-committed: ",
    "serves_zombies": "isr-has-all-committed: ",
    "skips_unknown_epochs": "not converged within 5 s: t-0: its ISR is",
    "stands_without_asking": "came back, and epoch",
    "starts_at_old_snapshots": "last-stable-offset: ",
    "takes_high_watermark_first": "follower-high-watermark: ",
    "truncate_to_high_watermark": "committed-stays: ",
    "trusts_an_old_verification": "transactions-end: ",
    "trusts_old_incarnations": "isr-has-all-committed: ",
    "votes_by_node_id": "leader-has-all-committed: ",
    "votes_in_memory": "votes-are-on-disk: ",
    "watches_after_reading": "not within 30 s: the reassignment has ended",
}
NOT_HERE = {"forgets_epoch_ends", "sessions_by_wall_clock", "trusts_the_last_leader"}
"""These mutants have scenarios only (`harness/zoo/entries.py`)."""
ONCE = list({schedule.play: name for name, schedule in SCHEDULES.items()}.values())
"""One mutant for each play function."""


def test_every_schedule_has_an_expectation() -> None:
    """Each mutant has a schedule with an expected failure, or a scenario."""
    assert set(CAUGHT_BY) == set(SCHEDULES) == set(mutants.NAMES) - NOT_HERE


@pytest.mark.parametrize("name", ONCE)
def test_unmodified_broker_passes_the_schedule(name: str) -> None:
    """No invariant breaks, no acknowledged record is lost, and the cluster converges."""
    SCHEDULES[name].run(SEED)


@pytest.mark.parametrize("name", SCHEDULES)
def test_mutant_fails_its_schedule_for_its_bug(name: str) -> None:
    """The rule that forbids the bug finds it."""
    undo = mutants.load(name).apply()
    try:
        with pytest.raises((SimulationError, ExpectationFailed), match=re.escape(CAUGHT_BY[name])):
            SCHEDULES[name].run(SEED)
    finally:
        undo()
