"""Which fault was there when a tested program broke its claim."""

from typing import Any

from checkers.causes.programs import Moment, fault_near, told

S = 1_000_000_000


def fault(
    number: int, name: str, from_s: float, until_s: float | None, **more: Any
) -> dict[str, Any]:
    """A row of the faults' table."""
    return {
        "fault_id": number,
        "fault": name,
        "label": f"{name} instance 1",
        "started_ns": round(from_s * S),
        "healed_ns": None if until_s is None else round(until_s * S),
        "took_effect": True,
        **more,
    }


def test_fault_of_the_program_goes_first() -> None:
    """A broker that was killed nearer in time explains less."""
    rows = [fault(0, "kill", 11, 12), fault(1, "app.kill", 14, 16), fault(2, "app.kill", 30, 31)]
    found = fault_near(rows, 10 * S, 20 * S)
    assert found is not None
    assert found["fault_id"] == 1


def test_fault_that_is_over_or_took_no_effect_was_not_there() -> None:
    """Nor one that began later, or never."""
    rows = [
        fault(0, "app.kill", 1, 2),
        fault(1, "app.kill", 30, 31),
        fault(2, "app.kill", 11, 12, took_effect=False),
        fault(3, "app.kill", 11, 12, started_ns=None),
    ]
    assert fault_near(rows, 10 * S, 20 * S) is None
    assert fault_near([fault(0, "kill", 1, None)], 10 * S, 20 * S) is not None


def test_words_say_when_it_was_and_which_fault_was_near() -> None:
    """The form in which reports find the faults of a cause."""
    rows = [fault(3, "app.kill", 14, 16)]
    sent = {"invoke_ns": 10 * S, "complete_ns": 10 * S + 1}
    assert told(rows, sent, Moment.SENT) == (
        "the first was sent at 10.000 s, near fault 3 (app.kill instance 1, 14.000 s to 16.000 s)"
    )
    again = {"invoke_ns": 13 * S, "complete_ns": 17 * S}
    assert told(rows, again, Moment.WRITTEN).startswith(
        "the first was written at 13.000 s and again at 17.000 s, near fault 3 ("
    )
    assert told([], again, Moment.WRITTEN).endswith("again at 17.000 s, when no fault was near")
    assert told(rows, {}, Moment.SENT) == ""
