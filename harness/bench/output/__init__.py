"""A benchmark's result for people: tables on a terminal, an HTML page with plots, progress lines.

The result itself and its JSON file are in `harness.bench.results`.
"""
