"""PySpark's DataFrame API for the embedded engine: columns and frames that are SQL text.

What detectors use is written as DuckDB's SQL here, directly: building one query costs microseconds.
Whatever else the API has goes the general way, by SQLFrame (`general`), at some milliseconds a
call.

    columns       expressions, sort orders, windows
    functions     the functions module
    frames        tables, and what becomes of them verb by verb
    general       everything that the others do not write
"""
