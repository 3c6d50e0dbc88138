"""The join of listed files with what metadata names, on disk where it is large (I/O).

Two spools are spread alike, and ``matching`` is asked partition by partition. Both sides come in any order.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.orphans.matching import LISTED, NAMED, check_conflicts, orphans
from lakemeta.iceberg.orphans.spool import PARTITIONS, Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.orphans.uris import Prefix, PrefixRules

_ROWS: Final = 16_384  # that are objects at a time


@attrs.frozen(slots=True)
class Orphan:
    """A file that no metadata names: its store path and its size in bytes."""

    path: str
    size: int


@attrs.frozen(eq=False)
class Join:
    """Both sides; ``rooted`` says of the store that its paths have no bucket before them."""

    listed: Spool
    named: Spool
    rules: PrefixRules
    rooted: bool

    @classmethod
    @contextmanager
    def opened(cls, rules: PrefixRules, *, rooted: bool) -> Iterator[Join]:
        """An empty join, whose files are removed in the end."""
        with tempfile.TemporaryDirectory(prefix="lakemeta-orphans-") as folder:
            sides = (Spool(LISTED, Path(folder) / "listed"), Spool(NAMED, Path(folder) / "named"))
            try:
                for side in sides:
                    side.folder.mkdir()
                yield cls(*sides, rules, rooted)
            finally:
                for side in sides:
                    side.close()

    def add_listed(
        self, root: Root, scheme: str, paths: pa.Array | Sequence[str], sizes: pa.Array | Sequence[int]
    ) -> None:
        """Add files of a directory by their paths in a store of ``scheme``, and sizes in bytes."""
        keys = pa.array(paths, pa.string())
        if not self.rooted:
            keys = pc.utf8_slice_codeunits(keys, len(root.path.partition("/")[0]))
        self.listed.add(root.prefix(scheme), keys, pa.array(sizes, pa.int64()))

    def orphans(self) -> Iterator[Orphan]:
        """The listed files that nothing names, once both sides are there.

        Raises CorruptMetadataError after the last if prefixes conflict and are to be the same.
        """
        for left, _ in self._parts():
            yield from self._files(left)

    def ours(self) -> Iterator[str]:
        """The store paths of the listed files that something names; raises as :meth:`orphans`."""
        for _, named in self._parts():
            yield from (file.path for file in self._files(named))

    def _parts(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        conflicts: set[tuple[str | None, str | None]] = set()
        for number in range(PARTITIONS):
            rows = self.listed.partition(number)
            if rows.num_rows:
                named = self.named.partition(number)
                yield orphans(rows, self.listed.prefixes, named, self.named.prefixes, self.rules, conflicts)
        check_conflicts(conflicts, self.rules)

    def _files(self, rows: pa.Table) -> Iterator[Orphan]:
        for batch in rows.to_batches(_ROWS):
            keys, prefixes, sizes = (batch.column(name).to_pylist() for name in LISTED.names)
            for key, prefix, size in zip(keys, prefixes, sizes, strict=True):
                yield Orphan(self._path(self.listed.prefixes[prefix], key), size)

    def _path(self, prefix: Prefix, key: str) -> str:
        return key if self.rooted else f"{prefix.authority or ''}{key}"
