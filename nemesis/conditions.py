"""What a scripted event may wait for before it strikes.

`leader:<topic>/<partition> is N`, `leader:... is-not N`, `isr:<topic>/<partition> is N,N,...` (in
any order), `isr:... size N`, and `controller is leader:<topic>/<partition>` (or `is-not`). An old
bug's schedule is a few such steps; wall-clock guesses alone would miss it on a busy machine.
Evaluated against what the cluster says of itself.
"""

import re
from dataclasses import dataclass

from nemesis.base import BadSchedule, ClusterView

_FORM = re.compile(
    r"(?P<subject>leader|isr):(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)"
    r" +(?P<verb>is|is-not|size) +(?P<numbers>\d+(,\d+)*)"
)
_CONTROLLER = re.compile(
    r"(?P<subject>controller) +(?P<verb>is|is-not)"
    r" +leader:(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)"
)
_VERBS = {"leader": ("is", "is-not"), "isr": ("is", "size"), "controller": ("is", "is-not")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A parsed condition over one partition."""

    subject: str
    topic: str
    partition: int
    verb: str
    numbers: tuple[int, ...]

    def holds(self, view: ClusterView) -> bool:
        """Whether the cluster says so now; what is not known does not hold."""
        if self.subject == "isr":
            isr = view.isr(self.topic, self.partition)
            if isr is None:
                return False
            sized = self.verb == "size"
            return len(isr) == self.numbers[0] if sized else set(isr) == set(self.numbers)
        leader = view.leader(self.topic, self.partition)
        if self.subject == "controller":
            controller = view.controller()
            known = leader is not None and controller is not None
            return known and (controller == leader) == (self.verb == "is")
        return leader is not None and (leader in self.numbers) == (self.verb == "is")


def parse(text: str) -> Condition:
    """Read a condition. Raises BadSchedule, naming the forms."""
    match = _FORM.fullmatch(text.strip()) or _CONTROLLER.fullmatch(text.strip())
    if match is None or match["verb"] not in _VERBS[match["subject"]]:
        raise BadSchedule(
            f"{text!r} is no condition; conditions are leader:<topic>/<partition> is|is-not N, "
            "isr:<topic>/<partition> is N,N, isr:<topic>/<partition> size N, "
            "controller is|is-not leader:<topic>/<partition>"
        )
    named = match.groupdict().get("numbers") or ""
    numbers = tuple(int(number) for number in named.split(",") if number)
    if len(numbers) > 1 and (match["subject"], match["verb"]) != ("isr", "is"):
        raise BadSchedule(f"{text!r} names {len(numbers)} numbers where one is meant")
    return Condition(
        subject=match["subject"],
        topic=match["topic"],
        partition=int(match["partition"]),
        verb=match["verb"],
        numbers=numbers,
    )
