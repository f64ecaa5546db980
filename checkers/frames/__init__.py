"""Frames that several detectors share: send outcomes, reads, the final log, row counts.

They derive data from the tables of a run. Detectors find anomalies in them.
"""
