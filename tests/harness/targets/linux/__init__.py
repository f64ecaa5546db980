"""Tests of the local target, on real kernel objects."""
