"""What a scripted event may wait for before it strikes.

`leader:<topic>/<partition> is N`, `leader:... is-not N`, `isr:<topic>/<partition> is N,N,...` (in
any order) and `isr:... size N`. An old bug's schedule is a few such steps; wall-clock guesses alone
would miss it on a busy machine. Evaluated against what the cluster says of itself.
"""

import re
from dataclasses import dataclass

from nemesis.base import BadSchedule, ClusterView

_FORM = re.compile(
    r"(?P<subject>leader|isr):(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)"
    r" +(?P<verb>is|is-not|size) +(?P<numbers>\d+(,\d+)*)"
)
_VERBS = {"leader": ("is", "is-not"), "isr": ("is", "size")}


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
        if self.subject == "leader":
            leader = view.leader(self.topic, self.partition)
            return leader is not None and (leader in self.numbers) == (self.verb == "is")
        isr = view.isr(self.topic, self.partition)
        if isr is None:
            return False
        return len(isr) == self.numbers[0] if self.verb == "size" else set(isr) == set(self.numbers)


def parse(text: str) -> Condition:
    """Read a condition. Raises BadSchedule, naming the forms."""
    match = _FORM.fullmatch(text.strip())
    if match is None or match["verb"] not in _VERBS[match["subject"]]:
        raise BadSchedule(
            f"{text!r} is no condition; conditions are leader:<topic>/<partition> is|is-not N, "
            "isr:<topic>/<partition> is N,N, isr:<topic>/<partition> size N"
        )
    numbers = tuple(int(number) for number in match["numbers"].split(","))
    if len(numbers) > 1 and (match["subject"], match["verb"]) != ("isr", "is"):
        raise BadSchedule(f"{text!r} names {len(numbers)} numbers where one is meant")
    return Condition(
        subject=match["subject"],
        topic=match["topic"],
        partition=int(match["partition"]),
        verb=match["verb"],
        numbers=numbers,
    )
