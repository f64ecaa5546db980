"""Runs on virtual machines take ten minutes or more, so they are collected only on request."""

import os

collect_ignore = [] if "vagrant" in os.environ.get("HIGHWATER_REQUIRE", "") else ["test_runs.py"]
