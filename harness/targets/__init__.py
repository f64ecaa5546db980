"""Deployment targets: the machines on which a run's nodes and clients run, and their faults.

`base` is the interface of every target and `kinds` the list of targets. Which brokers run on them
is decided in `harness.systems`, which faults hit them in `nemesis`.
"""
