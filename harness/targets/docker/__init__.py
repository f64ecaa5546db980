"""The Docker target: every node runs in its own container, on the machine of the harness.

Network, disks and faults are left to `harness.targets.linux`: a container starts without a network,
and gets the run's network and disk from outside, so it needs no capability.
"""
