"""Apache Hudi: open a table, plan a clean, apply it."""

from lakemeta.hudi.table import HudiTable

__all__ = ["HudiTable"]
