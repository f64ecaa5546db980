"""The HTML report of a run.

`write_report(run_dir)` makes report.html from what is stored in the run directory, and nothing
else; it can be made again at any time.

    loading                  the parts of a run, and what is missing
    tables series timeline   aggregates of the history; leaders and faults
    scales panels lanes      geometry: axes and paths; numbers over time; bars over time
    figures                  all panels on one time axis
    words findings           the verdict and the anomalies in words
    page                     everything through the templates
"""

from harness.report.page import REPORT_FILE, render, write_report

__all__ = ["REPORT_FILE", "render", "write_report"]
