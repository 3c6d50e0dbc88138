"""Which manifests a query of one partition opens."""

from __future__ import annotations

import pytest

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifest_rewrite.gain import _may_hold


def test_values_of_another_type_are_refused() -> None:
    """A spec whose transform is damaged gives bounds of another type than its entries have."""
    assert _may_hold([("a", "b", False, False)], ("a",))
    with pytest.raises(CorruptMetadataError, match="the partition value 3, which is not of its spec's type"):
        _may_hold([("a", "b", False, False)], (3,))
