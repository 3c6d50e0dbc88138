"""Manifests for tests: written from values, recorded by the engine, and made of random entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakemeta.iceberg.manifests.codec import read_manifest_list, write_manifest
from lakemeta.iceberg.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from lakemeta.iceberg.spec.metadata_json import load_metadata
from support.iceberg_values import SCHEMA, spec, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.iceberg.spec.schema import Schema
    from support.iceberg_cases import Case

LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**40)
IDS = st.integers(1, 2**31 - 1)
METRICS = st.none() | st.dictionaries(IDS, COUNTS, max_size=70)


def files(bounds: int = 140, content: FileContent = FileContent.DATA) -> st.SearchStrategy[DataFile]:
    """Files of a spec of a text and a number; ``bounds`` is the greatest length of texts in metrics and partitions."""
    bytes_of = st.none() | st.dictionaries(IDS, st.binary(max_size=bounds), max_size=5)
    return st.builds(
        DataFile,
        content=st.just(content),
        file_path=st.text(max_size=300),
        file_format=st.sampled_from(["PARQUET", "avro"]),
        spec_id=st.just(0),
        partition=st.tuples(st.none() | st.text(max_size=bounds), st.none() | st.integers(-9, 9)),
        record_count=COUNTS,
        file_size_in_bytes=COUNTS,
        column_sizes=METRICS,
        value_counts=METRICS,
        null_value_counts=METRICS,
        nan_value_counts=METRICS,
        lower_bounds=bytes_of,
        upper_bounds=bytes_of,
        key_metadata=st.none() | st.binary(max_size=80),
        split_offsets=st.none() | st.lists(COUNTS, max_size=70).map(tuple),
        equality_ids=st.none() | st.lists(IDS, max_size=3).map(tuple),
        sort_order_id=st.none() | st.integers(0, 9),
        first_row_id=st.none() | COUNTS,
        referenced_data_file=st.none() | st.text(max_size=300) if content != FileContent.DATA else st.none(),
        content_offset=st.none() | COUNTS if content != FileContent.DATA else st.none(),
        content_size_in_bytes=st.none() | COUNTS if content != FileContent.DATA else st.none(),
    )


def entries(of: st.SearchStrategy[DataFile]) -> st.SearchStrategy[ManifestEntry]:
    """Entries of any status and any numbers."""
    return st.builds(ManifestEntry, st.sampled_from(EntryStatus), LONGS, st.none() | COUNTS, st.none() | COUNTS, of)


def written(
    listed: list[ManifestEntry], *fields: tuple[int, str], version: int = 2, schema: Schema = SCHEMA, **more: Any
) -> tuple[bytes, ManifestFile]:
    """A manifest of these entries, and its line."""
    known: dict[str, Any] = {"path": "/m.avro", "content": ManifestContent.DATA, "snapshot_id": 7} | more
    return write_manifest(table(spec(*fields), format_version=version, schema=schema), 0, listed, **known)


def manifests_of(case: Case) -> Iterator[tuple[Any, bytes, ManifestFile]]:
    """(metadata, bytes, line) of every manifest that a recorded table still has; each line of one once."""
    lines: list[ManifestFile] = []
    path = case.metadata_files()[-1]
    metadata = load_metadata(path.read_bytes(), str(path))
    for snapshot in metadata.snapshots:
        assert snapshot.manifest_list is not None
        for line in read_manifest_list(case.local(snapshot.manifest_list).read_bytes(), snapshot.manifest_list):
            if line not in lines and case.local(line.manifest_path).exists():
                lines.append(line)
                yield metadata, case.local(line.manifest_path).read_bytes(), line
