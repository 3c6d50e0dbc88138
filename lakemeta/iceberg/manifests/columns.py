"""The entries of a manifest column by column, decoded as far as somebody asks for it.

A manifest of thousands of files has few heads, few partitions and few formats: each different encoding is decoded
once, and many that differ in one call of the decoder. Metrics, which are most of the bytes, stay as they are.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro import container as avro
from lakemeta.iceberg.manifests.codec import check_header, partition_reader
from lakemeta.iceberg.manifests.entries import EntryStatus, Inheritance
from lakemeta.iceberg.manifests.record_patterns import HEAD, record_scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import Head, ManifestFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.types import Value

_STATUSES: Final = dict(enumerate(EntryStatus))
_KEPT: Final = frozenset((HEAD, "partition", "record_count", "first_row_id"))


class ManifestColumns:
    """The columns of one manifest, in file order, with what entries inherit."""

    def __init__(self, data: bytes, manifest: ManifestFile, spec: PartitionSpec, kept: frozenset[str]) -> None:
        """``kept`` are names of fields of files, or ``record_patterns.FILE``. Raises one of ``UNFAMILIAR``."""
        schema, blocks = avro.read_blocks(data, manifest.manifest_path)
        check_header(data, manifest)
        self.schema_text = json.dumps(schema)
        self.path = manifest.manifest_path
        scanner = record_scanner(self.schema_text, kept | _KEPT)
        rows = [row for count, block in blocks for row in scanner.rows(count, block)]
        self.count = len(rows)
        self.text_pattern = scanner.text_pattern  # of texts of any length in this manifest
        columns = zip(*rows, strict=True) if rows else [()] * len(scanner.names)
        self.encoded: dict[str, Sequence[bytes]] = dict(zip(scanner.names, columns, strict=True))
        self._kinds = _kinds(self.schema_text)
        inherited = Inheritance(manifest)
        self.heads = self._heads(inherited)
        partition = partition_reader(schema, spec, self.path)
        self.partitions: Sequence[tuple[Value, ...]] = self._decoded("partition", partition)
        self.record_counts: Sequence[int] = self.values("record_count")
        self.own_row_ids: Sequence[int | None] = self.values("first_row_id")
        self.row_ids: Sequence[int | None] = [None] * self.count
        if manifest.first_row_id is not None:
            numbers = zip(self.heads, self.own_row_ids, self.record_counts, strict=True)
            self.row_ids = [inherited.row_id(head[0], own, records) for head, own, records in numbers]

    def values(self, name: str) -> Sequence[Any]:
        """The values of a field; None of one that the manifest does not have."""
        if name not in self.encoded:
            return [None] * self.count
        if name == "file_path":  # to look for equal ones would cost more than it saves
            return avro.read_data(self._kinds[name], self.encoded[name], self.path)
        return self._decoded(name)

    def _heads(self, inherited: Inheritance) -> Sequence[Head]:
        def head(record: dict[str, Any]) -> Head:
            own = [record.get(name) for name in ("snapshot_id", "sequence_number", "file_sequence_number")]
            status = _STATUSES[record["status"]]
            return status, *inherited.of_entry(status, *own)

        return self._decoded(HEAD, head)

    def _decoded(self, name: str, value: Callable[[Any], Any] | None = None) -> Sequence[Any]:
        return self.decoded(self.encoded[name], self._kinds[name], value)

    def decoded(self, encoded: Sequence[bytes], kind: str, value: Callable[[Any], Any] | None = None) -> Sequence[Any]:
        """The values of some encodings of one type; equal encodings share theirs."""
        different = list(dict.fromkeys(encoded))
        decoded = avro.read_data(kind, different, self.path)
        decoded = decoded if value is None else list(map(value, decoded))
        return list(map(dict(zip(different, decoded, strict=True)).__getitem__, encoded))


@lru_cache(maxsize=64)
def _kinds(schema_text: str) -> Mapping[str, str]:
    """The types of the fields of entries and files, and of ``HEAD``, as JSON text."""
    fields = avro.spelled_out(json.loads(schema_text))["fields"]
    kinds = {f["name"]: json.dumps(f["type"]) for f in (*fields, *fields[-1]["type"]["fields"])}
    return kinds | {HEAD: json.dumps({"type": "record", "name": "head", "fields": fields[:-1]})}
