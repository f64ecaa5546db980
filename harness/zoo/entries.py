"""All entries of the zoo: each mutant, with its schedule and its scenario, found by its name.

A mutant that needs single messages or one certain disk error has a schedule (`schedules`); a mutant
that the faults of real processes show has a scenario. Many have both.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from harness.zoo import mutants
from harness.zoo.entry import Entry
from harness.zoo.schedules import SCHEDULES

SCENARIOS: Final = Path(__file__).parent / "scenarios"

SCENARIO_OF: Final[Mapping[str, str]] = {
    "truncate_to_high_watermark": "truncation-to-high-watermark",
    "never_compares_epochs": "shorter-log-leads",
    "skips_unknown_epochs": "fast-failover",
    "same_leader_skips_truncation": "missed-epoch",
    "serves_zombies": "missed-epoch",
    "commits_by_proposed_isr": "leader-on-its-own",
    "readds_the_fenced": "fenced-member",
    "last_replica_standing": "last-replica-standing",
    "trusts_the_last_leader": "unclean-recovery",
    "acknowledges_before_flush": "correlated-power-loss",
    "elects_who_lags": "unclean-election",
    "isr_of_one": "isr-of-one",
    "commits_below_min_isr": "high-watermark-below-min-isr",
    "forgets_sequences": "answers-lost",
    "votes_by_node_id": "voter-returns-empty",
    "sessions_by_wall_clock": "clock-set-back",
    "metadata_in_page_cache": "page-cache-trusted",
    "ack_before_replication": "leader-on-its-own",
    "forgets_epoch_ends": "leader-on-its-own",
    "ends_the_next_transaction": "late-end-of-transaction",
    "aborts_without_fencing": "paused-in-a-transaction",
}
"""The mutant's name -> the file (in `scenarios`) of the plan that catches it, also with real
processes. One scenario may serve several mutants."""


def play_schedule(name: str, seed: int) -> str:
    """Play the mutant's schedule of single messages. Return what failed, or an empty text."""
    try:
        SCHEDULES[name].run(seed)
    except Exception as error:
        return getattr(error, "name", None) or str(error)
    return ""


def _entry(name: str) -> Entry:
    mutant = mutants.load(name)
    scenario = SCENARIO_OF.get(name)
    return Entry(
        name=name,
        bug=mutant.bug,
        sources=mutant.sources,
        shows=mutant.shows,
        module=mutant.module,
        scenario=None if scenario is None else SCENARIOS / f"{scenario}.toml",
        script=partial(play_schedule, name) if name in SCHEDULES else None,
    )


ENTRIES: Final = tuple(_entry(name) for name in mutants.NAMES)
