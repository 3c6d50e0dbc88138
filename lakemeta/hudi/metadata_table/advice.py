"""The way out of a metadata table that is damaged or that lakemeta cannot handle, in one wording for every message."""

from __future__ import annotations


def drop_advice(table: str = "TABLE") -> str:
    """What to do where the metadata table of ``table``, a path or URL, must be built anew."""
    return (
        f"take the table off its metadata table with: lakemeta clean {table} --drop-metadata-table; "
        "the next Hudi writer builds it anew"
    )
