"""Opening a metadata table that is not there."""

from __future__ import annotations

import pytest

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.properties import TableConfig
from lakemeta.hudi.metadata_table.loading import check_version
from lakemeta.storage.remote import MemoryStorage


def test_advice_names_the_table_as_commands_take_it() -> None:
    """By its URL, with the scheme of its store, and not by its path in the store."""
    with pytest.raises(CorruptMetadataError, match="with: lakemeta clean memory://t --drop-metadata-table;"):
        check_version(MemoryStorage("memory"), "t", TableConfig({"hoodie.table.version": "6"}))
