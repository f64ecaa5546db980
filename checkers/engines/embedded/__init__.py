"""PySpark's DataFrame API for the embedded engine: columns and frames that are SQL text.

The operations that detectors use often are written here as DuckDB's SQL: building one query costs
microseconds. SQLFrame translates the rest of the API, at some milliseconds a call (`general`). The
package computes nothing: `engine` runs the SQL.

    general       the rest of the API, by SQLFrame
    columns       expressions, sort orders, windows
    frames        frames and their verbs
    functions     the functions module

Each module imports only modules above it in this list.
"""
