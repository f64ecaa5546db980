"""The contract: which anomalies the configured guarantees forbid, permit, or leave open.

It judges evidence and causes that others found: the detectors and `checkers.causes`.
"""
