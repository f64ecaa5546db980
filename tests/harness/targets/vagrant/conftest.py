"""Virtual machines take ten minutes and more: their runs are collected when they are asked for."""

import os

collect_ignore = [] if "vagrant" in os.environ.get("HIGHWATER_REQUIRE", "") else ["test_runs.py"]
