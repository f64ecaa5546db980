"""The local target: nodes as processes in network namespaces of this machine.

`target.LocalTarget` is the way in; `undo` takes down what a dead run left; `rootless` gives a user
who is not root a place where all this is allowed.
"""

from harness.targets.local.target import LocalTarget
from harness.targets.local.volumes import Volume

__all__ = ["LocalTarget", "Volume"]
