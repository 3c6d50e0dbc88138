"""Reading many manifest lists of one table: a list repeats most lines of the one before, and each is decoded once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakemeta.avro import container as avro
from lakemeta.iceberg.manifests.codec import manifests_of, read_manifest_list
from lakemeta.iceberg.manifests.lines import checked_lines
from lakemeta.iceberg.manifests.record_patterns import RECORD, UNFAMILIAR, record_scanner

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import ManifestFile


class ManifestLists:
    """Reads manifest lists. Lines are known by their bytes, for each schema and format version by themselves."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[tuple[bytes, bytes], dict[bytes, ManifestFile]] = {}

    def read(self, data: bytes, path: str) -> tuple[ManifestFile, ...]:
        """The manifests of a list, in order; ``path`` is for messages.

        Equal lines of several lists are one value. Raises as ``read_manifest_list``, and CorruptMetadataError for a
        line that contradicts itself.
        """
        try:
            schema, blocks = avro.read_blocks(data, path)
            scanner = record_scanner(json.dumps(schema), frozenset({RECORD}))
            lines = [line for count, block in blocks for (line,) in scanner.rows(count, block)]
        except UNFAMILIAR:
            return checked_lines(read_manifest_list(data, path))
        header = avro.container_metadata(data, path)
        key = (header["avro.schema"], header.get("format-version", b""))
        known = self._known.get(key)
        if known is None:
            manifests = checked_lines(read_manifest_list(data, path))
            self._known[key] = dict(zip(lines, manifests, strict=True))
            return manifests
        new = [line for line in lines if line not in known]
        if new:
            found = manifests_of(schema, avro.read_data(schema, new, path), header, path)
            known.update(zip(new, checked_lines(found), strict=True))
        return tuple(known[line] for line in lines)

    def __getstate__(self) -> dict[str, Any]:
        """What is known stays here: a worker reads for itself."""
        return {"_known": {}}
