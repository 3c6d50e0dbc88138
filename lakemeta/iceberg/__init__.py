"""Apache Iceberg: open a table, plan a rewrite of its data files, apply it."""

from lakemeta.iceberg.table import IcebergTable

__all__ = ["IcebergTable"]
