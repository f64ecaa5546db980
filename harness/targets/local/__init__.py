"""The local target: nodes as processes in network namespaces of this machine.

`target.LocalTarget` is the way in; `rootless` gives a user who is not root a place where all this
is allowed.
"""

from harness.targets.local.target import LocalTarget

__all__ = ["LocalTarget"]
