"""The rewrite planner against every plan that real Iceberg 1.12 made of recorded tables."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest
from support.iceberg_cases import PARAMS, Case, Cases

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.codec import read_manifest_list
from lakemeta.iceberg.manifests.delete_entries import scan_delete_manifest
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions, plan_groups
from lakemeta.iceberg.rewrite.groups import RewriteGroup, partition_json
from lakemeta.iceberg.scan.file_tasks import plan_files
from lakemeta.iceberg.spec.metadata_json import load_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry, ManifestFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

DAYS = {"ts_day"}  # recorded as a number of days


class Planned:
    """One recorded table and its plans by this planner."""

    def __init__(self, case: Case) -> None:
        self.case = case
        path = case.metadata_files()[-1]
        self.metadata = load_metadata(path.read_bytes(), str(path))
        snapshot = self.metadata.current_snapshot
        assert snapshot is not None
        assert snapshot.manifest_list is not None
        data = case.local(snapshot.manifest_list).read_bytes()
        self.manifests = read_manifest_list(data, snapshot.manifest_list)
        self.entries = lru_cache(None)(self._entries)

    def _entries(self, path: str, metrics: frozenset[int]) -> list[ManifestEntry]:
        manifest = next(m for m in self.manifests if m.manifest_path == path)
        spec = self.metadata.specs_by_id[manifest.partition_spec_id]
        data = self.case.local(path).read_bytes()
        if manifest.is_deletes:
            return scan_delete_manifest(data, manifest, spec)
        return scan_manifest(data, manifest, spec, metrics)

    def read(self, manifests: Sequence[ManifestFile], metrics: frozenset[int] | None) -> Iterator[list[ManifestEntry]]:
        return (self.entries(m.manifest_path, metrics or frozenset()) for m in manifests)

    def groups(self, options: dict[str, str], where: str | None) -> list[RewriteGroup]:
        parsed = RewriteOptions.parse(options, self.metadata)
        expression = parse_where(where or "true", self.metadata.schema)
        tasks = plan_files(self.metadata, self.manifests, self.read, expression)
        return plan_groups(self.metadata, tasks, parsed)

    def delete(self, file: DataFile) -> str:
        """A delete file as recorded: a deletion vector by its place in the Puffin file."""
        path = self.case.relative(file.file_path)
        return f"{path}@{file.content_offset}" if file.is_deletion_vector else path

    def shape(self, group: RewriteGroup) -> Any:
        """A group in the recorded form, order of files and deletes aside."""
        files = {
            (
                self.case.relative(t.data_file.file_path),
                t.data_file.record_count,
                tuple(sorted(self.delete(d) for d in t.deletes)),
            )
            for t in group.tasks
        }
        sizes = (group.bytes, group.split_size, group.expected_outputs, group.max_output_size, group.spec_id)
        return partition(group, self.metadata), frozenset(files), sizes


def partition(group: RewriteGroup, metadata: TableMetadata) -> tuple[tuple[str, Any], ...]:
    named = partition_json(group.partition, metadata)
    raw = {f.name: v for f, v in zip(metadata.spec.fields, group.partition, strict=True)}
    return tuple((name, raw[name] if name in DAYS else value) for name, value in named.items())


def recorded(group: dict[str, Any]) -> Any:
    files = {(f["path"], f["records"], tuple(sorted(f.get("deletes", ())))) for f in group["files"]}
    names = ("input_bytes", "input_split_size", "expected_output_files", "max_output_file_size", "output_spec_id")
    return tuple(group["partition"].items()), frozenset(files), tuple(group[name] for name in names)


@pytest.fixture(scope="module")
def tables(iceberg_cases: Cases) -> Any:
    """Reads each case once."""
    return lru_cache(None)(lambda name: Planned(iceberg_cases.shared(name)))


@lru_cache(None)
def data_file_plans(case: Case) -> list[dict[str, Any]]:
    """The plans of rewrite_data_files; those of rewrite_position_delete_files are another planner's."""
    return [p for p in case.plans() if p.get("kind") != "position_deletes"]


@pytest.mark.parametrize("name", PARAMS)
def test_plans_are_those_of_the_engine(name: str, tables: Any) -> None:
    """Every plan, filtered or not: the same groups of files with the same deletes, sizes and expected outputs."""
    table = tables(name)
    for plan in data_file_plans(table.case):
        if "error" in plan or is_cut_differently(plan):
            continue
        found = {table.shape(g) for g in table.groups(plan["options"], plan["where"])}
        assert found == {recorded(g) for g in plan["groups"]}, plan["options"] | {"where": plan["where"]}


def is_cut_differently(plan: dict[str, Any]) -> bool:
    """With max-files-to-rewrite, the order of partitions in a Java hash map says which groups are cut."""
    return "max-files-to-rewrite" in plan["options"] and any(g["partition"] for g in plan.get("groups", ()))


@pytest.mark.parametrize("name", PARAMS)
def test_max_files_to_rewrite_takes_that_many_files(name: str, tables: Any) -> None:
    """Over several partitions the number of files to rewrite is the engine's, whichever groups they are from."""
    table = tables(name)
    for plan in filter(is_cut_differently, data_file_plans(table.case)):
        found = sum(len(g.tasks) for g in table.groups(plan["options"], plan["where"]))
        assert found == sum(g["input_files"] for g in plan["groups"])


@pytest.mark.parametrize("name", PARAMS)
def test_wrong_options_are_refused_in_the_engines_words(name: str, tables: Any) -> None:
    """An option value that the engine refuses is refused with the same message; what is no number, by its name."""
    table = tables(name)
    for plan in (p for p in data_file_plans(table.case) if "error" in p):
        with pytest.raises(OptionError) as caught:
            table.groups(plan["options"], plan["where"])
        if plan["error"].get("class") == "java.lang.NumberFormatException":
            kinds = r"a whole number(, or a size as 128MiB)?|a number|from -?\d+ to \d+"
            assert re.match(rf"'[a-z-]+' is set to .* but must be ({kinds})$", str(caught.value))
        else:
            assert str(caught.value) == plan["error"]["message"]


@pytest.mark.parametrize("name", PARAMS)
def test_job_order_sorts_groups(name: str, tables: Any) -> None:
    """rewrite-job-order sorts groups by bytes or number of files, either way, and numbers them so."""
    table = tables(name)
    for plan in data_file_plans(table.case):
        by = plan["options"].get("rewrite-job-order", "none").lower()[:5]
        if by not in ("bytes", "files") or "error" in plan or is_cut_differently(plan):
            continue
        groups = table.groups(plan["options"], plan["where"])
        mine = [g.bytes if by == "bytes" else len(g.tasks) for g in groups]
        assert mine == [g["input_bytes" if by == "bytes" else "input_files"] for g in plan["groups"]]
        assert [g.group for g in groups] == list(range(len(groups)))
