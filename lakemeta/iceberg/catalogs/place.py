"""A table of some catalog, and what the caller calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.paths import CATALOG as SCHEME

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.operations import TableOperations

__all__ = ["SCHEME", "Place"]


@attrs.frozen(eq=False)
class Place:
    """A table and what the caller calls it."""

    url: str
    operations: TableOperations
