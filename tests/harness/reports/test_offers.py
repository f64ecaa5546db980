"""Which faults the run's target offered, by the run's own record."""

import pytest

from harness.reports.data.available_faults import offers
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability


@pytest.mark.parametrize("run", [{}, {"lacking": None}, {"lacking": "damaged"}])
def test_nothing_is_said_of_a_run_that_says_nothing(run: dict[str, object]) -> None:
    """Older runs, clusters for clients, damaged records."""
    assert offers(run) is None


def test_a_target_that_lacks_nothing() -> None:
    """Offers every fault; every ability is named with those that need it."""
    found = offers({"lacking": {}})
    assert found is not None
    assert found.available == found.faults == len(FAULTS)
    assert [each.ability for each in found.abilities] == [each.value for each in Ability]
    assert {name for each in found.abilities for name in each.faults} == set(FAULTS)
    assert not any(each.lacking for each in found.abilities)


def test_what_is_lacking_is_said_where_it_is_needed() -> None:
    """A fault that needs two abilities is lost with either of them."""
    both = [f for f in FAULTS.values() if {Ability.CLOCKS, Ability.SIGNALS} & f.needs]
    found = offers({"lacking": {"clocks": "no libfaketime", "signals": "no root"}})
    assert found is not None
    assert found.available == len(FAULTS) - len(both)
    said = {each.ability: each.lacking for each in found.abilities if each.lacking}
    assert said == {"clocks": "no libfaketime", "signals": "no root"}
