"""Faults, their shapes and their schedules; knows neither the broker nor the harness."""
