"""A run's plan: how it is read from TOML and flags, validated, listed and repeated.

Checks that need more than one value, and the schedule of faults, are left to `harness.run.prepare`.
"""
