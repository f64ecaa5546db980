"""The faults, one module or folder for each part of a cluster that they break.

When a fault happens and which nodes it hits is decided by the schedule and the executor.
"""
