"""Reads from the files of a run what its report shows, bounded by what a page can draw.
How it is shown is left to `harness.reports`.
"""
