"""The guided search."""
