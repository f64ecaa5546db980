"""ZooKeeper as a program: where its jars are, the configuration and the command of a server.

Machines, processes and ensembles are left to `harness.targets` and `harness.systems`.
"""
