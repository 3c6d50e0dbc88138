"""A table of some catalog, and what the caller calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.operations import TableOperations

SCHEME: Final = "catalog://"  # of the URL of a table that a catalog keeps


@attrs.frozen(eq=False)
class Place:
    """A table and what the caller calls it."""

    url: str
    operations: TableOperations
