"""Removing orphan files: listed or nominated, joined with what the table names, proved again, deleted."""
