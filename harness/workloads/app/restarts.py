"""When an instance of a program is started again after its end. Pure; times are seconds."""

from dataclasses import dataclass
from typing import Final

QUICK_S: Final = 5.0
"""An instance that ends sooner has failed at its start."""
LEAST_S: Final = 0.25
MOST_S: Final = 5.0
GIVE_UP: Final = 3
"""So many failed starts in a row, before any output, mean that the program does not work."""


@dataclass(slots=True)
class Restarts:
    """The starts of one instance."""

    failed: int = 0
    """Starts in a row that failed."""
    due_s: float = 0.0
    """When it may start again."""

    def ended(self, started_s: float, now_s: float, *, by_fault: bool) -> None:
        """Note an end. The pause before the next start doubles with each failed start."""
        if by_fault:
            self.failed, self.due_s = 0, now_s
            return
        self.failed = self.failed + 1 if now_s - started_s < QUICK_S else 0
        self.due_s = now_s + min(MOST_S, LEAST_S * (1 << min(self.failed, 10)))

    def hopeless(self, *, any_output: bool) -> bool:
        """Whether the program does not work at all."""
        return self.failed >= GIVE_UP and not any_output
