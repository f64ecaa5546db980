"""Detectors: each module finds every instance of one family of anomalies, and `registry` lists all.

They judge nothing; the contract does.
"""
