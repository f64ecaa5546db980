"""Judging a stored run, or a running one segment by segment, and storing the verdict.

Detectors and the contract are left to `checkers`, and the page to `harness.reports`.
"""
