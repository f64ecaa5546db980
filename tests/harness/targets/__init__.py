"""Tests of the deployment targets."""
