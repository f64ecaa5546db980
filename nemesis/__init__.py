"""Faults, the schedules that say when they happen, and the executor that injects and heals them.

The package knows neither the broker nor the harness; both hand in objects that fit its protocols.
"""
