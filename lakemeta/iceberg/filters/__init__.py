"""Filters: expressions, their evaluation against partitions and metrics, and the SQL they are parsed from."""
