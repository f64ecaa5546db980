"""The faults that a machine can make, derived from its capabilities."""

from collections.abc import Iterable

import pytest

from harness.targets import abilities, doctor
from harness.targets.abilities import AS_ROOT, NEEDS, WITHOUT_ROOT
from harness.targets.doctor import Capability
from nemesis.faults.catalogue import FAULTS, find
from nemesis.faults.fault import Ability


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The capabilities that the machine lacks; filled by the test."""
    lacks: set[str] = set()

    def capability(name: str) -> Capability:
        return Capability(
            name=name,
            available=name not in lacks,
            detail="looked",
            needed_for="faults",
            how_to_get=f"get {name}",
        )

    def missing_capabilities(names: Iterable[str]) -> list[Capability]:
        return [capability(name) for name in sorted(names) if name in lacks]

    def by_privilege(names: Iterable[str]) -> dict[bool, dict[str, Capability] | None]:
        return {True: None, False: {name: capability(name) for name in names}}

    monkeypatch.setattr(doctor, "missing_capabilities", missing_capabilities)
    monkeypatch.setattr(doctor, "by_privilege", by_privilege)
    return lacks


def test_every_ability_needs_capabilities_that_the_doctor_probes() -> None:
    """No ability is without capabilities."""
    assert set(NEEDS) == set(Ability)
    for names in NEEDS.values():
        assert names
        assert set(names) <= set(doctor.names())


def test_missing_abilities_have_a_reason_and_a_fix(machine: set[str]) -> None:
    """Only the requested abilities."""
    machine |= {"nftables", "freeze"}
    assert abilities.missing_abilities({Ability.SIGNALS}) == {}
    assert abilities.missing_abilities({*find("kill").needs, *find("partition.halves").needs}) == {
        Ability.PACKET_DROPS: "nftables: looked; get nftables"
    }


def test_the_table_has_every_fault_and_the_capabilities_that_it_lacks(machine: set[str]) -> None:
    """Unknown as root; without root the missing capability, with its fix once."""
    machine.add("freeze")
    found = abilities.fault_availability()
    assert [offer.fault for offer in found[::2]] == list(FAULTS)
    cells = {(o.fault, o.target): o.available for o in found}
    assert cells["disk.stall", AS_ROOT] is None
    assert cells["disk.stall", WITHOUT_ROOT] is False
    assert cells["kill", WITHOUT_ROOT] is True
    lines = abilities.text(found).splitlines()
    assert any(line.startswith("disk.stall ") and "no: lacks freeze" in line for line in lines)
    assert lines[-1] == "to get freeze: get freeze"
    row = next(row for row in abilities.as_json(found) if row["fault"] == "disk.stall")
    assert row["needs"] == ["disk-stalls"]
    assert row["targets"][AS_ROOT] == {"available": None, "missing": []}
    assert [c["name"] for c in row["targets"][WITHOUT_ROOT]["missing"]] == ["freeze"]
