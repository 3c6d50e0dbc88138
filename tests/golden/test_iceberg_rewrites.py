"""Rewriting groups of recorded tables against what real Iceberg 1.12 wrote for the same groups."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.parquet as pq
import pytest
from support import iceberg_checker
from support.iceberg_cases import CASES, Case, Cases, is_fast, recorded_actions

from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.codec import read_manifest, read_manifest_list
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions, plan_groups
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, RewrittenGroup, rewrite_group
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.rewrite.row_order import ZOrder, parse_row_order
from lakemeta.iceberg.rows.projection import LINEAGE
from lakemeta.iceberg.scan.file_tasks import FileScanTask, plan_files
from lakemeta.iceberg.spec.metadata_json import load_metadata, metadata_to_json
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

UUID = "00000000-0000-4000-8000-000000000000"
# What the writers of different engines are free to do: encoded sizes.
COMPARED = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class Rewritten:
    """A recorded table and its groups rewritten as an action says."""

    def __init__(self, case: Case, action: dict[str, Any]) -> None:
        self.case, self.action = case, action
        path = case.metadata_files()[-1]
        self.metadata = with_noted_properties(load_metadata(path.read_bytes(), str(path)), action, case)
        args = action["action"]["args"]
        self.options = dict(args.get("options", {}))
        self.where, self.sort_order = (args.get("where") or "true").replace('"', "'"), args.get("sort_order")
        self.sorts = args.get("strategy") == "sort"

    def tasks(self, where: str | None) -> list[FileScanTask]:
        snapshot = self.metadata.current_snapshot
        assert snapshot
        assert snapshot.manifest_list
        manifests = read_manifest_list(self.case.local(snapshot.manifest_list).read_bytes(), snapshot.manifest_list)
        expression = parse_where(where or "true", self.metadata.schema)
        return list(plan_files(self.metadata, manifests, lambda ms, _: map(self.entries, ms), expression))

    def entries(self, manifest: Any) -> Any:
        spec = self.metadata.specs_by_id[manifest.partition_spec_id]
        return read_manifest(self.case.local(manifest.manifest_path).read_bytes(), manifest, spec)

    def groups(self) -> list[RewriteGroup]:
        return plan_groups(self.metadata, self.tasks(self.where), RewriteOptions.parse(self.options, self.metadata))

    def job(self, **more: Any) -> RewriteJob:
        order: Any = None
        if self.sort_order:
            order = parse_row_order(self.sort_order, self.metadata.schema)
            if isinstance(order, ZOrder) and "var-length-contribution" in self.options:
                order = attrs.evolve(order, string_bytes=int(self.options["var-length-contribution"]))
        elif self.metadata.sort_order.is_sorted:
            order = self.metadata.sort_order
        order_id = self.metadata.default_sort_order_id if not self.sort_order else 0
        per_file = int(self.options.get("shuffle-partitions-per-file", 1))
        return RewriteJob(
            LocalStorage(), self.metadata, UUID, order, order_id, sorts=self.sorts, ranges_per_file=per_file, **more
        )

    def rows(self, files: tuple[DataFile, ...]) -> list[str]:
        """The rows of new files as recorded rows are written, read without lakemeta."""
        lineage = LINEAGE if self.metadata.format_version >= 3 else ()
        fields = metadata_to_json(self.metadata)["schemas"]
        (schema,) = [s for s in fields if s["schema-id"] == self.metadata.current_schema_id]
        columns = [*schema["fields"], *({"id": f.field_id, "name": f.name, "type": "long"} for f in lineage)]
        line, found = iceberg_checker.line_writer(columns), []
        for file in files:
            rows = list(iceberg_checker.rows_by_id(pq.ParquetFile(self.case.local(file.file_path)).read()))
            assert not rows or {column["id"] for column in columns} <= rows[0].keys()
            found += [line(row, {}) for row in rows]
        return found

    def rest(self, groups: list[RewriteGroup]) -> list[RewriteGroup]:
        """The files that the action leaves alone, as groups of one file."""
        taken = {t.data_file.file_path for g in groups for t in g.tasks}
        left = [t for t in self.tasks(None) if t.data_file.file_path not in taken]
        options = RewriteOptions.parse({"rewrite-all": "true", "max-file-group-input-files": "1"}, self.metadata)
        return [attrs.evolve(g, group=g.group + 1000) for g in plan_groups(self.metadata, left, options)]


def with_noted_properties(metadata: TableMetadata, action: dict[str, Any], case: Case) -> TableMetadata:
    note = action.get("note", "")
    if not note.startswith("properties set first: "):
        return metadata
    new = ast.literal_eval(note.removeprefix("properties set first: "))
    moved = {k: v.replace(f"/warehouse/db/{case.name}", metadata.location) for k, v in new.items()}
    return attrs.evolve(metadata, properties={**metadata.properties, **moved})


def rewrites() -> list[tuple[str, str]]:
    """Rewrites whose table is the recorded one, or differs from it in properties alone."""
    found = []
    for name in CASES:
        for action, expected in recorded_actions(name).items():
            chained = expected["action"].get("chained") and "properties set" not in expected.get("note", "")
            if "rewrite_data_files" in action and not chained and "rows_after" in expected and "error" not in expected:
                found.append((name, action))
    return found


def params() -> list[Any]:
    """Every rewrite; some are fast."""
    marks = {True: (), False: pytest.mark.slow}
    return [pytest.param(*pair, id="-".join(pair), marks=marks[is_fast(*pair)]) for pair in rewrites()]


@pytest.mark.parametrize(("name", "action"), params())
def test_a_rewrite_keeps_every_row_and_measures_files_as_iceberg_does(
    iceberg_cases: Cases, name: str, action: str
) -> None:
    """New files and untouched ones hold the table's rows; new ones are as many, with the metrics of Iceberg's.

    Rewriting a group adds files to a table and changes none.
    """
    expected = recorded_actions(name)[action]
    rewritten = Rewritten(iceberg_cases.shared(name), expected)
    if rewritten.metadata.properties.get("write.format.default", "parquet") != "parquet":
        rewritten.metadata = attrs.evolve(
            rewritten.metadata, properties={**rewritten.metadata.properties, "write.format.default": "parquet"}
        )
    groups = rewritten.groups()
    results = [rewrite_group(rewritten.job(), g) for g in groups]
    others = [rewrite_group(rewritten.job(), g) for g in rewritten.rest(groups)]
    files = [f for r in (*results, *others) for f in r.files]
    assert sorted(rewritten.rows(tuple(files))) == sorted(rewritten.case.rows())
    compare_metrics(rewritten, groups, results, expected)


def compare_metrics(
    rewritten: Rewritten, groups: list[RewriteGroup], results: list[RewrittenGroup], expected: dict[str, Any]
) -> None:
    added = expected["diff"]["data_files_added"]
    files = [f for r in results for f in r.files]
    assert len(files) == len(added)
    if any(f["file_format"] != "PARQUET" for f in added):
        return
    if rewritten.sorts and any(g.expected_outputs != 1 for g in groups):  # cut by a sample that Spark draws by chance
        return
    assert sorted(map(measured, files), key=str) == sorted(map(recorded, added), key=str)


def measured(file: DataFile) -> dict[str, Any]:
    metrics = {name: {str(i): plain(v) for i, v in (getattr(file, name) or {}).items()} for name in COMPARED}
    return {
        "records": file.record_count,
        "spec": file.spec_id,
        "order": file.sort_order_id,
        "sizes": sorted(map(str, file.column_sizes or {})),
        **metrics,
    }


def plain(value: Any) -> Any:
    """A bound as recorded."""
    return "0x" + value.hex() if isinstance(value, bytes) else value


def recorded(file: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: file["metrics"].get(name) or {} for name in COMPARED}
    return {
        "records": file["record_count"],
        "spec": file["spec_id"],
        "order": file["sort_order_id"],
        "sizes": sorted(file["metrics"].get("column_sizes") or {}),
        **metrics,
    }
