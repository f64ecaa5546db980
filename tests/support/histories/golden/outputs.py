"""What a tested program made of its inputs: outputs that are missing, there again, moved, torn."""

from dataclasses import replace

from checkers.history.settings import OFFSETS_TOPIC
from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ALL, ONE, Story, v, value

GROUP = "billing"
PROGRAM = 51
EVERY = tuple(range(1, 21))


def program(
    s: Story,
    outputs: tuple[int | None, ...],
    *,
    claim: str = "exactly-once",
    ordered: bool = False,
    error: str | None = None,
    at_s: float = 20,
    output: str | None = None,
) -> None:
    """A program read ONE, and wrote outputs of the inputs with these sequences, in this order. None
    is an element without a value, for the reason `error`. output: the topic of the output."""
    s.plan["more_workloads"] = [
        {
            "kind": "app",
            "group": GROUP,
            "input": ONE,
            "processing": claim,
            "ordered_by": "key" if ordered else None,
            "sink": {"topic": output},
        }
    ]
    s.row("start", PROGRAM, 1)
    for position, sequence in enumerate(outputs):
        made = None if sequence is None else v(ONE, sequence)
        why = error if sequence is None else None
        columns = {"partition": 0, "offset": position, "value": made, "error": why}
        s.row("app-output", PROGRAM, at_s + position / 100, **columns)
    s.row("app-end", PROGRAM, 40)
    s.row("end", PROGRAM, 61)


def without(*sequences: int) -> tuple[int, ...]:
    """All inputs but these."""
    return tuple(each for each in EVERY if each not in sequences)


@golden("VALID")
def program_wrote_each_output_once(s: Story) -> None:
    """Near miss of all: nothing is missing, there again, or moved."""
    program(s, EVERY, ordered=True)


@golden("INVALID", {("lost-output", None): (F, 2)}, because="each input has an output")
def program_lost_inputs(s: Story) -> None:
    """It went past them."""
    program(s, without(3, 7), claim="at-least-once")


@golden("VALID", {("lost-output", None): (P, 2)})
def program_lost_inputs_at_most_once(s: Story) -> None:
    """It may give them up."""
    program(s, without(3, 7), claim="at-most-once")


@golden("INVALID", {("late-output", None): (F, 3)}, because="within lag_s")
def program_did_not_come_to_the_end(s: Story) -> None:
    """It wrote nothing after them."""
    program(s, without(18, 19, 20), claim="at-most-once")


@golden("INVALID", {("late-output", None): (F, 20)})
def program_wrote_nothing(s: Story) -> None:
    """No output at all."""
    program(s, ())


@golden("UNKNOWN", {("late-output", None): (U, 1)}, because="did not recover")
def program_did_not_come_to_the_end_of_a_broken_cluster(s: Story) -> None:
    """The cluster may have held it up."""
    program(s, without(20))
    s.run_file = replace(s.run_file, finished=("final reads", "collect"))


@golden("INVALID", {("duplicated-output", None): (F, 3)}, because="at most one output")
def program_wrote_outputs_again(s: Story) -> None:
    """One of them twice again."""
    program(s, (*EVERY, 4, 4, 9))


@golden("VALID", {("duplicated-output", None): (P, 1)})
def program_wrote_an_output_again_at_least_once(s: Story) -> None:
    """It may."""
    program(s, (*EVERY, 4), claim="at-least-once")


@golden("VALID", {("duplicate", None): (P, 1)})
def input_was_there_twice(s: Story) -> None:
    """Near miss: the broker stored the input twice, and each record has an output."""
    s.plan["topics"][0]["idempotence"] = False
    s.read_in_the_end(ONE, 20, v(ONE, 3))
    program(s, (*EVERY, 3))


@golden("VALID")
def program_corrected_its_output(s: Story) -> None:
    """Near miss: two inputs were there again, until the program wrote its output anew."""
    program(s, (4, 9, 4, 9), at_s=15)
    s.history[:] = [
        row for row in s.history if row["client"] != PROGRAM or row["f"] == "app-output"
    ]
    s.row("app-reread", PROGRAM, 18)
    program(s, EVERY, ordered=True)


@golden("INVALID", {("reordered-output", None): (F, 1)}, because="in their order")
def program_changed_the_order_of_a_key(s: Story) -> None:
    """The inputs 3 and 11 have one key."""
    program(s, (1, 2, 11, 3, *without(1, 2, 3, 11)), ordered=True)


@golden("VALID", {("reordered-output", None): (INFO, 1)})
def program_that_claims_no_order_changed_it(s: Story) -> None:
    """It may."""
    program(s, (1, 2, 11, 3, *without(1, 2, 3, 11)))


@golden("VALID")
def program_changed_the_order_of_two_keys(s: Story) -> None:
    """Near miss: the inputs 3 and 4 have different keys."""
    program(s, (1, 2, 4, 3, *without(1, 2, 3, 4)), ordered=True)


@golden("VALID", {("duplicated-output", None): (P, 2)})
def program_went_back(s: Story) -> None:
    """Near miss: what it wrote again comes late, but the first outputs are in order."""
    program(s, (*EVERY, 3, 11), claim="at-least-once", ordered=True)


BILLS = "bills"


def bereft(s: Story, topic: str, *nodes: int) -> None:
    """The nodes lost power; partition 0 of the topic had nodes 1 and 2 in sync. The input had its
    last new leader before."""
    s.faults.clear()
    led(s, topic, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (13, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    taken(s, *nodes, by_s=12.5)


@golden("UNKNOWN", {("lost-output", None): (U, 2)}, because="does not tell", cause="lost power by")
def program_lost_outputs_with_its_output_topic(s: Story) -> None:
    """It may have written them, and the cluster lost them with permission."""
    program(s, without(3, 7), output=BILLS)
    bereft(s, BILLS, 1, 2)


@golden("INVALID", {("lost-output", None): (F, 2)})
def program_lost_outputs_that_a_replica_would_have(s: Story) -> None:
    """Near miss: node 2 kept its power, and it leads."""
    program(s, without(3, 7), output=BILLS)
    bereft(s, BILLS, 1)


@golden("INVALID", {("lost-output", None): (F, 2)})
def program_lost_outputs_when_another_topic_lost_records(s: Story) -> None:
    """Near miss: it does not depend on that topic."""
    program(s, without(3, 7), output=BILLS)
    bereft(s, ALL, 1, 2)


@golden(
    "UNKNOWN",
    {("duplicated-output", None): (U, 1), ("reordered-output", None): (U, 1)},
    because="does not tell",
)
def program_lost_its_place_with_the_offsets_topic(s: Story) -> None:
    """It went back to a position that was committed before."""
    program(s, (1, 2, 11, 3, 3, *without(1, 2, 3, 11)), ordered=True)
    bereft(s, OFFSETS_TOPIC, 1, 2)


@golden("UNKNOWN", {("late-output", None): (U, 1)}, because="does not tell")
def program_lost_its_place_with_the_input(s: Story) -> None:
    """It waits for offsets that the log does not have any more."""
    program(s, without(20), claim="at-most-once")
    s.faults.clear()
    taken(s, 1, 2)


@golden("VALID", {("lost-output", None): (P, 1)})
def program_that_may_lose_inputs_lost_its_output_topic(s: Story) -> None:
    """What it claims permits it anyway."""
    program(s, without(3), claim="at-most-once", output=BILLS)
    bereft(s, BILLS, 1, 2)


@golden("INVALID", {("torn-output", None): (F, 1)}, because="as a whole")
def program_tore_an_output(s: Story) -> None:
    """A part of an id."""
    program(s, (*EVERY, None), error="torn")


@golden("INVALID", {("unknown-output", "unreadable"): (F, 1)}, because="names the input")
def program_wrote_garbage(s: Story) -> None:
    """No id at all."""
    program(s, (*EVERY, None), error="unreadable")


@golden("INVALID", {("unknown-output", None): (F, 1)})
def program_invented_an_output(s: Story) -> None:
    """No client sent the value."""
    program(s, EVERY)
    s.row("app-output", PROGRAM, 30, partition=0, offset=99, value=value(9, 9))


@golden(
    "INVALID",
    {
        ("lost-output", None): (F, 1),
        ("late-output", None): (F, 2),
        ("duplicated-output", None): (F, 1),
        ("reordered-output", None): (F, 1),
        ("torn-output", None): (F, 1),
        ("unknown-output", None): (F, 1),
        ("unknown-output", "unreadable"): (F, 1),
    },
    cause="kill node 1",
)
def program_did_everything_wrong(s: Story) -> None:
    """All at once."""
    outputs = (1, 2, 11, 3, 3, None, *without(1, 2, 3, 7, 11, 19, 20))
    program(s, outputs, ordered=True, error="torn", at_s=9)
    s.row("app-output", PROGRAM, 30, partition=0, offset=98, value=value(9, 9))
    s.row("app-output", PROGRAM, 31, partition=0, offset=99, error="unreadable")


@golden("UNKNOWN", because="was not read to its end")
def output_was_not_read_to_its_end(s: Story) -> None:
    """Nobody knows what is missing."""
    program(s, without(3))
    s.rows("app-end")[0].update(type="info", error="the database is locked")


@golden("UNKNOWN", because="no output of a tested program is recorded")
def supervisor_of_the_program_was_killed(s: Story) -> None:
    """Its last rows are missing."""
    program(s, ())
    s.history = [r for r in s.history if r["client"] != PROGRAM]
