"""Tests of the single invariants."""
