"""What packages with systems, targets and clients of their own might declare."""

from collections.abc import Mapping

from harness.plans.plan import Plan
from harness.targets.kinds import LocalKind
from harness.targets.plugged import PluggedTarget


class Better:
    """A broker program, as far as the tests ask."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def versions(self) -> Mapping[str, str]:
        """The number of nodes."""
        return {"nodes": str(self._plan.nodes)}


def system(plan: Plan) -> Better:
    """A system."""
    return Better(plan)


def command() -> list[str]:
    """The command of a client."""
    return ["python", "a-client"]


def failing() -> list[str]:
    """A client that cannot be started."""
    raise RuntimeError("not compiled")


def empty() -> list[str]:
    """A client without a command."""
    return []


MOON = PluggedTarget(kind=lambda plan: LocalKind(), undo={"moon.crater": lambda fields: "a crater"})
