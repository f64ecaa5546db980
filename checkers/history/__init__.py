"""The files of a run directory: schemas, segments, plan.json, run.json, settings, faults.

The package reads and validates them; the harness writes them, and the engines compute on them.
"""
