"""The HTML report of a run.

`write_report(run_dir)` makes report.html from what is stored in the run directory, and nothing
else; it can be made again at any time. loading: the parts of a run, and what is missing; series:
aggregates for the figures; scales and figures: their geometry; words and findings: verdict and
anomalies in words; page: all of it through the templates.
"""

from harness.report.page import REPORT_FILE, render, write_report

__all__ = ["REPORT_FILE", "render", "write_report"]
