"""The Docker target: every node in a container of its own, on the machine of the harness.

Network, disks and faults are those of the local target: a container is made without a network and
with the node's directory bound in, and is given the run's own network and disk from outside. It
needs no capability for that.
"""
