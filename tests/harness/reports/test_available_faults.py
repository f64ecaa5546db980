"""The faults that the run's target made available, by run.json."""

import pytest

from harness.reports.data.available_faults import available_faults
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability


@pytest.mark.parametrize("run", [{}, {"lacking": None}, {"lacking": "damaged"}])
def test_run_without_a_record_of_abilities_has_no_table(run: dict[str, object]) -> None:
    """Older runs, clusters for clients, damaged records."""
    assert available_faults(run) is None


def test_target_without_gaps_makes_every_fault_available() -> None:
    """Every ability is listed with the faults that need it."""
    found = available_faults({"lacking": {}})
    assert found is not None
    assert found.available == found.faults == len(FAULTS)
    assert [each.ability for each in found.abilities] == [each.value for each in Ability]
    assert {name for each in found.abilities for name in each.faults} == set(FAULTS)
    assert not any(each.lacking for each in found.abilities)


def test_missing_ability_makes_its_faults_unavailable() -> None:
    """A fault that needs two abilities is unavailable without either of them."""
    both = [f for f in FAULTS.values() if {Ability.CLOCKS, Ability.SIGNALS} & f.needs]
    found = available_faults({"lacking": {"clocks": "no libfaketime", "signals": "no root"}})
    assert found is not None
    assert found.available == len(FAULTS) - len(both)
    said = {each.ability: each.lacking for each in found.abilities if each.lacking}
    assert said == {"clocks": "no libfaketime", "signals": "no root"}
