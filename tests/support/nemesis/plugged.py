"""What packages with faults of their own might declare."""

from nemesis.faults.process.hold import Pause

ONE = Pause(name="one")
SEVERAL = (Pause(name="first"), Pause(name="second"))
NUMBER = 3
