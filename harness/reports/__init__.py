"""The HTML report of a run.

`page.write_report(run_dir)` makes report.html from what is stored in the run directory, and nothing
else; it can be made again at any time. This package imports nothing: `terminal` is needed at every
start of the command line, and the report's libraries take most of a second.

    loading redaction        the parts of a run, what is missing; secrets taken out
    tables                   the tables as views of a database
    operations timeline      sends and polls; leaders and faults;
    progress                 gaps without an acknowledgement, high watermarks, lag
    incidents node_logs      every anomaly, and the evidence around it
    packing                  all of these as blocks of a few bytes
    words telling            the verdict and the anomalies in words
    facts page               everything at once; and through the template
    templates/*.js           what draws the blocks: one script, in the order of page.SCRIPTS
    scales                   geometry for drawings without a script, those of `bench`
"""
