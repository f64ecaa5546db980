"""Readers of a program's output: a topic, a file, a database, and an HTTP address."""
