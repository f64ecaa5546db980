"""Deployment targets: the machines that a run's nodes and clients live on.

`base` says what every target offers; `local` makes the machines out of network namespaces. What
runs on a target, and what is broken there, is decided elsewhere.
"""
