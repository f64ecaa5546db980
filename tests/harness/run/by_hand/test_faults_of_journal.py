"""Which faults are in force, by the journal alone."""

from harness.run.by_hand.faults_of_journal import list_faults, unhealed

JOURNAL = [
    {"kind": "local.network", "subnet": "198.18.1.0/24"},
    {"kind": "fault", "fault_id": 1, "fault": "kill", "label": "kill node 2", "at_ns": 5},
    {"kind": "fault-effective", "fault_id": 1, "effect": "process of node 2 gone"},
    {"kind": "fault", "fault_id": 2, "fault": "pause", "label": "pause node 1", "at_ns": 6},
    {"kind": "fault-healed", "fault_id": 1, "healing": "node 2 runs"},
]


def test_a_fault_is_in_force_until_its_heal_is_in_the_journal() -> None:
    first, second = list_faults(JOURNAL)
    assert (first["id"], first["state"], first["healing"]) == (1, "healed", "node 2 runs")
    assert first["effect"] == "process of node 2 gone"
    assert (second["id"], second["state"], second["effect"]) == (2, "in force", None)
    assert list(unhealed(JOURNAL)) == [2]


def test_a_journal_without_faults_lists_none() -> None:
    assert list_faults(JOURNAL[:1]) == []
    assert unhealed([]) == {}
