"""The detectors: their names, their functions, and the rows that each one needs."""

from collections.abc import Mapping
from typing import Any

from checkers.contract.contract import CONTRACT
from checkers.contract.rules import Rule
from checkers.detectors import plugged
from checkers.detectors.availability import unavailability
from checkers.detectors.compacted import keyed_records
from checkers.detectors.compacted_passes import keyed_passes
from checkers.detectors.consumers import poll_jumps, watermark_regressions
from checkers.detectors.contradictions import contradicted_evidence
from checkers.detectors.copies import judged_copies
from checkers.detectors.deliveries import deliveries_again, skipped_records, two_owners
from checkers.detectors.detector import Detector, Words
from checkers.detectors.divergence import divergent_replicas
from checkers.detectors.durability import aborted_reads, lost_writes, phantoms, truncated_reads
from checkers.detectors.groups import lost_commits, phantom_commits, stale_commits
from checkers.detectors.hanging import hanging_transactions
from checkers.detectors.keyed_order import keyed_order
from checkers.detectors.leadership import broken_isrs, forgotten_metadata, two_leaders
from checkers.detectors.open_transactions import open_reads
from checkers.detectors.ordering import duplicates, inconsistent_offsets, reordered_sends
from checkers.detectors.outputs import END, program_of, program_outputs
from checkers.detectors.real_time import reordered_acks, stale_reads, uncommitted_reads
from checkers.detectors.refused_batches import refused_heads
from checkers.detectors.stuck import stuck
from checkers.detectors.transactions import false_aborts, torn_transactions, zombie_writes
from checkers.frames.census import Census
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import (
    ABORT,
    COMMIT,
    INIT,
    KEYED_DELETE,
    KEYED_PASS,
    KEYED_READ,
    KEYED_WRITE,
)


def _acks(census: Census) -> str | None:
    written = census.rows("send", "ok") or _keys(census) is None
    return None if written else "no acknowledged write"


def _reads(census: Census) -> str | None:
    read = sum(census.rows(f, "ok") for f in ("poll", "final-read", KEYED_READ))
    return None if read else "nothing was read"


def _clocks(census: Census) -> str | None:
    return "clocks went backwards" if census.backwards or census.astray else None


def _timed_acks(census: Census) -> str | None:
    return _acks(census) or _clocks(census)


def _timed_polls(census: Census) -> str | None:
    return _polls(census) or _clocks(census)


def _polls(census: Census) -> str | None:
    return None if census.rows("poll", "ok") else "no consumer polled"


def _watermarks(census: Census) -> str | None:
    told = census.rows("watermark", "ok")
    return _clocks(census) if told else "no client asked for end offsets"


def _replicas(census: Census) -> str | None:
    return None if census.replicas else "no replica's files were read"


def _ends(census: Census) -> str | None:
    return _polls(census) or _watermarks(census)


def _cluster(census: Census) -> str | None:
    return None if census.cluster else "the cluster said nothing of itself"


def _transactions(census: Census) -> str | None:
    ended = census.rows(COMMIT) + census.rows(ABORT)
    return None if ended else "no end of a transaction is recorded"


def _committed_polls(census: Census) -> str | None:
    return _transactions(census) or _timed_polls(census)


def _keys(census: Census) -> str | None:
    written = census.rows(KEYED_WRITE, "ok") + census.rows(KEYED_DELETE, "ok")
    return None if written else "no write to a compacted topic was acknowledged"


def _timed_keys(census: Census) -> str | None:
    return _keys(census) or _clocks(census)


def _passes(census: Census) -> str | None:
    read = census.rows(KEYED_PASS, "ok") > 1
    return _clocks(census) if read else "no compacted topic was read twice during the run"


def _producers(census: Census) -> str | None:
    return None if census.rows(INIT) else _transactions(census)


def _groups(census: Census) -> str | None:
    return None if census.rows("final-committed") else "no committed offset of a group is recorded"


def _commits(census: Census) -> str | None:
    committed = census.rows("offset-commit", "ok")
    return _clocks(census) if committed else "no group committed an offset"


def _known_commits(census: Census) -> str | None:
    """A commit without an answer may be proved by its transaction."""
    return _clocks(census) if census.rows("offset-commit", "info") else _commits(census)


def _members(census: Census) -> str | None:
    assigned = census.rows(ASSIGNED)
    return _clocks(census) if assigned else "no member of a group was assigned a partition"


def _fencing(census: Census) -> str | None:
    fenced = census.rows(INIT, "ok") > 1
    return _clocks(census) if fenced else "no transactional id was taken over"


def _program(census: Census) -> str | None:
    if not census.rows(END):
        return "no output of a tested program is recorded"
    return None if census.rows(END, "ok") else "the output of the program was not read to its end"


def _with_program(plan: Mapping[str, Any]) -> bool:
    return program_of(plan) is not None


def _with_keys(plan: Mapping[str, Any]) -> bool:
    further = plan.get("more_workloads") or ()
    return any(each.get("kind") == "compacted" for each in further)


def _with_passes(plan: Mapping[str, Any]) -> bool:
    return any(each.get("passes_every_s") for each in plan.get("more_workloads") or ())


def _never(_: Mapping[str, Any]) -> bool:
    return False


def _with_consumers(plan: Mapping[str, Any]) -> bool:
    return bool((plan.get("workload") or {}).get("consumers"))


def _own_broker(plan: Mapping[str, Any]) -> bool:
    return plan.get("system") == "nodes"


_OWN: tuple[Detector, ...] = (
    Detector(name="lost-write", find=lost_writes, lacking=_acks),
    Detector(name="keyed-records", find=keyed_records, lacking=_keys, decisive=_with_keys),
    Detector(name="keyed-order", find=keyed_order, lacking=_timed_keys, decisive=_with_keys),
    Detector(name="keyed-passes", find=keyed_passes, lacking=_passes, decisive=_with_passes),
    Detector(name="duplicate", find=duplicates, lacking=_reads),
    Detector(name="inconsistent-offset", find=inconsistent_offsets, lacking=_reads),
    Detector(name="reordered-send", find=reordered_sends, lacking=_acks),
    Detector(name="truncated-read", find=truncated_reads, lacking=_polls, decisive=_with_consumers),
    Detector(name="aborted-read", find=aborted_reads, lacking=_reads),
    Detector(
        name="open-transaction-read", find=open_reads, lacking=_committed_polls, decisive=_never
    ),
    Detector(
        name="torn-transaction", find=torn_transactions, lacking=_transactions, decisive=_never
    ),
    Detector(name="false-abort", find=false_aborts, lacking=_transactions, decisive=_never),
    Detector(name="zombie-write", find=zombie_writes, lacking=_fencing, decisive=_never),
    Detector(
        name="hanging-transaction",
        find=hanging_transactions,
        lacking=_producers,
        decisive=_never,
    ),
    Detector(name="copies", find=judged_copies, lacking=_groups, decisive=_never),
    Detector(name="program-output", find=program_outputs, lacking=_program, decisive=_with_program),
    Detector(name="lost-commit", find=lost_commits, lacking=_known_commits, decisive=_never),
    Detector(name="stale-commit", find=stale_commits, lacking=_commits, decisive=_never),
    Detector(name="phantom-commit", find=phantom_commits, lacking=_groups, decisive=_never),
    Detector(name="skipped-record", find=skipped_records, lacking=_commits, decisive=_never),
    Detector(name="delivered-again", find=deliveries_again, lacking=_members, decisive=_never),
    Detector(name="two-owners", find=two_owners, lacking=_members, decisive=_never),
    Detector(name="phantom", find=phantoms, lacking=_reads),
    Detector(name="poll-order", find=poll_jumps, lacking=_polls, decisive=_with_consumers),
    Detector(
        name="watermark-regression",
        find=watermark_regressions,
        lacking=_watermarks,
        decisive=_never,
    ),
    Detector(
        name="divergent-replicas",
        find=divergent_replicas,
        lacking=_replicas,
        decisive=_own_broker,
    ),
    Detector(name="unavailable", find=unavailability, lacking=_acks, decisive=_never),
    Detector(name="stuck", find=stuck, lacking=_acks, decisive=_never),
    Detector(name="reordered-ack", find=reordered_acks, lacking=_timed_acks),
    Detector(name="uncommitted-read", find=uncommitted_reads, lacking=_ends, decisive=_never),
    Detector(name="stale-read", find=stale_reads, lacking=_timed_polls, decisive=_never),
    Detector(name="two-leaders", find=two_leaders, lacking=_cluster, decisive=_never),
    Detector(name="isr-broken", find=broken_isrs, lacking=_cluster, decisive=_never),
    Detector(name="metadata-rollback", find=forgotten_metadata, lacking=_cluster, decisive=_never),
    Detector(
        name="contradicted-evidence", find=contradicted_evidence, lacking=_cluster, decisive=_never
    ),
    Detector(name="refused-head", find=refused_heads, lacking=_acks, decisive=_never),
)

OF_OTHERS = plugged.load({each.name for each in _OWN}, {rule.anomaly for rule in CONTRACT})
"""The detectors of other packages."""
DETECTORS: tuple[Detector, ...] = (*_OWN, *OF_OTHERS.detectors)
RULES: tuple[Rule, ...] = (
    *CONTRACT,
    *(rule for detector in OF_OTHERS.detectors for rule in detector.rules),
)
"""The contract with the rows about what detectors of other packages find."""


def words_of_others() -> Mapping[str, Words]:
    """Return the kinds of anomalies that detectors of other packages find, in words."""
    return {kind: said for each in OF_OTHERS.detectors for kind, said in each.words.items()}
