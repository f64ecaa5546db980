"""Writes the HTML report of a run, and prints a verdict on the terminal.
Judging is left to `checkers`: reports only show what a run stored, and can be written again.

    data        what the page shows, read from the run's files
      loading redaction   the parts of a run, what is missing; secrets removed
      tables              the tables as views of a database
      operations timeline wall_clocks progress    sends and polls; leaders and faults; clocks;
                          gaps without an acknowledgement, high watermarks, lag
      incidents node_logs losses   every anomaly and the evidence around it; lost writes
      facts               all of it at once
    packing     these data as blocks of a few bytes words sentences     verdicts, numbers and
    anomalies in words replay      the commands that repeat a run page templates      the page, and
    the script that draws the blocks (in the order of page.SCRIPTS) summary terminal    a verdict on
    the terminal html scales         what all pages of the project share; geometry for drawings
    without a script
"""
