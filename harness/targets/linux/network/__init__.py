"""The run's network on Linux: namespaces, the switch between them, and faults of the links.

Kernel objects only; `packets` decides how long a packet of a slow link waits.
"""
