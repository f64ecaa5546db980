"""The local target: nodes are processes in network namespaces on this machine.

A `LocalTarget` is a Linux target whose machines are only namespaces: it needs no container engine,
no daemon and no downloaded program. `rootless` lets a user who is not root run it.
"""

from harness.targets.linux.target import LinuxTarget as LocalTarget

__all__ = ["LocalTarget"]
