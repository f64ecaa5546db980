"""The local target: nodes as processes in network namespaces of this machine.

A `LocalTarget` is a Linux target whose machines are namespaces and nothing else: no container
engine, no daemon, no downloaded program. `rootless` gives a user who is not root a place where all
this is allowed.
"""

from harness.targets.linux.target import LinuxTarget as LocalTarget

__all__ = ["LocalTarget"]
