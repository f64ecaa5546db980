"""The collection of `highwater zoo`: the mutants, and the schedules that show them.

Faults of real processes show most; the others need single messages, or a disk that loses just this.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from harness.zoo.exhibit import Exhibit
from tests import mutants
from tests.harness.targets.sim.schedules import SCHEDULES
from tests.harness.targets.sim.schedules.stage import Stage
from tests.scenarios import path_of

SCENARIO_OF: Final[Mapping[str, str]] = {
    "truncate_to_high_watermark": "zoo/truncation-to-high-watermark",
    "never_compares_epochs": "zoo/shorter-log-leads",
    "skips_unknown_epochs": "zoo/fast-failover",
    "same_leader_skips_truncation": "zoo/missed-epoch",
    "serves_zombies": "zoo/missed-epoch",
    "commits_by_proposed_isr": "zoo/leader-on-its-own",
    "readds_the_fenced": "zoo/fenced-member",
    "last_replica_standing": "zoo/last-replica-standing",
    "trusts_the_last_leader": "zoo/unclean-recovery",
    "acknowledges_before_flush": "zoo/correlated-power-loss",
    "elects_who_lags": "zoo/unclean-election",
    "isr_of_one": "zoo/isr-of-one",
    "commits_below_min_isr": "zoo/high-watermark-below-min-isr",
    "forgets_sequences": "zoo/answers-lost",
    "votes_by_node_id": "zoo/voter-returns-empty",
    "sessions_by_wall_clock": "zoo/clock-set-back",
    "metadata_in_page_cache": "zoo/page-cache-trusted",
    "ack_before_replication": "zoo/leader-on-its-own",
}
"""Mutant -> the scenario that catches it, also with real processes."""


def played(name: str, seed: int) -> str:
    """Play the schedule of single messages for a mutant; what broke, or nothing."""
    try:
        Stage(SCHEDULES[name], seed).run()
    except Exception as error:
        return getattr(error, "name", None) or str(error)
    return ""


def _exhibit(name: str) -> Exhibit:
    mutant = mutants.load(name)
    scenario = SCENARIO_OF.get(name)
    return Exhibit(
        name=name,
        bug=mutant.bug,
        sources=mutant.sources,
        shows=mutant.shows,
        module=mutant.module,
        scenario=None if scenario is None else path_of(scenario),
        script=partial(played, name) if name in SCHEDULES else None,
    )


EXHIBITS: Final = tuple(_exhibit(name) for name in mutants.NAMES)
