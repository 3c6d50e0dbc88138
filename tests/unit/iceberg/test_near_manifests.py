from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.executors import Cluster
from support.iceberg_tables import create_table

from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("manifests", "shipped"), [(16, []), (17, [17])])
def test_few_small_manifests_are_read_here(manifests: int, shipped: list[int], tmp_path: Path) -> None:
    """A cluster would not have begun by the time; many manifests are shipped, and the plan is the same."""
    made = create_table(LocalStorage(), str(tmp_path / "t"))
    for number in range(manifests):
        made.append([(number, "a", 0.5)])
    table, cluster = IcebergTable.open(str(tmp_path / "t")), Cluster()
    plan = table.plan_rewrite_data_files({"rewrite-all": "true"}, executor=cluster)
    assert [length for length in cluster.shipped if length] == shipped
    assert plan.dumps() == table.plan_rewrite_data_files({"rewrite-all": "true"}).dumps()
