"""What would happen, as people see it: to the letter."""

import json

from harness.plans.plan import build
from harness.run.dry_run import as_json, text
from harness.run.prepare import Prepared, prepare
from nemesis.faults.fault import Ability

EVENTS = [
    {
        "name": "cut",
        "at_ms": 500,
        "fault": "partition.one-way",
        "targets": "leader:t/0",
        "duration_ms": 12_500,
        "params": {"direction": "in"},
    },
    {
        "at_ms": 10_000,
        "fault": "kill",
        "targets": "node:2",
        "duration_ms": 750,
        "until": "fault:cut took and isr:t/0 is 2",
    },
    {"at_ms": 2_000, "fault": "clock.jump", "duration_ms": 3_000, "nodes": [3, 1]},
]
LACKS = {Ability.CLOCKS: "faketime: not installed; apt install faketime"}


def prepared(mode: str) -> Prepared:
    """A script on a machine that lacks clocks."""
    raw = {
        "name": "mine",
        "seed": 4,
        "duration_s": 20,
        "topics": [{"name": "t", "acks": "all"}],
        "nemesis": {"events": EVENTS, "mode": mode},
    }
    return prepare(build(raw, where="mine"), lacks=LACKS, refuse=False)


REFUSED = """\
mine, seed 4: 3 faults in 20.000 s
    when  name  fault                         targets          for  parameters     until
 0.500 s  cut   partition.one-way             leader:t/0  12.500 s  direction=in
 2.000 s        clock.jump (impossible here)  one = 3, 1   3.000 s  offset_ms=any
10.000 s        kill                          node:2       0.750 s                 \
fault:cut took and isr:t/0 is 2 (within 10.000 s)
clock.jump cannot be injected here: it lacks clocks (faketime: not installed; apt install faketime)
refused: plan mine: target local cannot inject clock.jump: it lacks clocks (faketime: not \
installed; apt install faketime); remove it from the plan, or leave it out with --nemesis auto; \
`highwater doctor` says what is missing"""

LENIENT = """\
mine, seed 4: 2 faults in 20.000 s
    when  name  fault              targets          for  parameters    until
 0.500 s  cut   partition.one-way  leader:t/0  12.500 s  direction=in
10.000 s        kill               node:2       0.750 s                \
fault:cut took and isr:t/0 is 2 (within 10.000 s)
clock.jump was left out: it lacks clocks (faketime: not installed; apt install faketime)"""


def test_dry_run_shows_the_schedule_and_impossible_faults() -> None:
    """It shows every event in order, what the machine lacks, and that the run would be refused."""
    assert text(prepared("strict")) == REFUSED


def test_dry_run_shows_faults_that_would_be_left_out() -> None:
    """Without these faults nothing is refused."""
    assert text(prepared("auto")) == LENIENT


def test_dry_run_as_json_has_the_schedule_and_the_reasons() -> None:
    """The schedule is the content of schedule.json."""
    strict = prepared("strict")
    told = json.loads(json.dumps(as_json(strict)))
    assert told["schedule"] == json.loads(strict.schedule.to_json())
    assert told["missing"] == {"clock.jump": f"it lacks clocks ({LACKS[Ability.CLOCKS]})"}
    assert told["refusal"] == strict.refusal
    assert as_json(prepared("auto"))["refusal"] is None


def test_dry_run_warns_of_losses_that_the_settings_permit() -> None:
    """The warning is in the text and in the JSON."""
    raw = {
        "name": "mine",
        "seed": 4,
        "topics": [{"name": "t", "acks": "all", "min_insync_replicas": 1}],
        "nemesis": {"events": [{"at_ms": 1_000, "fault": "kill", "duration_ms": 500}]},
    }
    made = prepare(build(raw, where="mine"))
    assert text(made).splitlines()[-1] == (
        "warning: min.insync.replicas=1: these faults can lose acknowledged writes of t, by the "
        "loss of the only in-sync replica; prevented by min.insync.replicas=2 (and replication "
        "factor 3)"
    )
    (risk,) = as_json(made)["risks"]
    assert risk["permitted_by"] == "min.insync.replicas=1"
    assert json.dumps(risk)
