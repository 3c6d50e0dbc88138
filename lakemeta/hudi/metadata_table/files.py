"""Reading the ``files`` partition piece by piece, so that no process holds the listing of a whole table.

Rules of this module:

1. Base file and logs are sorted by key. Partitions are asked for in that order, and a walk over the logs and over the
   index of the base file cuts what there is about them into pieces: data blocks that lie next to each other, with what
   the logs say of the same keys. A piece is small, and can be shipped.
2. Who has a piece reads the data blocks, decodes and merges. Here, only the record of all partitions is decoded.
3. A partition that is not in the list of partitions has no files, whatever its record says. One that is in it has a
   record, or the metadata table is damaged: a partition that seems empty would be dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import merge as merge_sorted
from itertools import groupby
from operator import itemgetter
from sys import intern
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from lakemeta.avro import container as avro
from lakemeta.hudi.metadata_table.hfile import open_stored_hfile, read_pairs
from lakemeta.hudi.metadata_table.hfile_format import corrupt
from lakemeta.hudi.metadata_table.keys import ALL_PARTITIONS, partition_key, partition_path
from lakemeta.hudi.metadata_table.merge import entries_of, live_files, merge_two
from lakemeta.hudi.metadata_table.records import RecordType, check_lists_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.hudi.metadata_table.hfile import HFile, Read
    from lakemeta.hudi.metadata_table.hfile_format import IndexEntry
    from lakemeta.hudi.metadata_table.merge import Layer, Record
    from lakemeta.storage import Storage

    _Said = tuple[int, bytes | None]  # number of the source, record to put or None for a deletion
    Listed = tuple[str, dict[str, int]]  # partition path, file name -> size in bytes

PIECE_BYTES: Final = 256 * 1024
_PIECE_BYTES_HERE: Final = 8 * PIECE_BYTES  # where they are read one after the other, and each read takes a while
_TAIL_BYTES: Final = 64 * 1024
_KEY_BYTES: Final = 64


class Change(NamedTuple):
    """What the logs say of one key: ``values`` to put on top, each (number of its source, undecoded record).

    ``anew`` says that they do not go on top of what the base file has.
    """

    anew: bool
    values: tuple[tuple[int, bytes], ...]


class Piece(NamedTuple):
    """Some partitions, by key and in order: the blocks of the base file they may be in, and what the logs say of them.

    ``unused`` are those that are not in use. ``before`` is the key that the block after the last one starts with, if
    there is one.
    """

    keys: tuple[str, ...]
    unused: frozenset[str]
    blocks: tuple[IndexEntry, ...]
    before: bytes | None
    changes: dict[str, Change]

    def __repr__(self) -> str:
        return f"partitions {self.keys[0]!r} to {self.keys[-1]!r}"


@attrs.frozen
class PieceReader:
    """Reads pieces, anywhere. ``sources`` are name and Avro schema (JSON) of the base file and of every log block."""

    storage: Storage
    base_path: str | None
    codec: str
    sources: tuple[tuple[str, str], ...]

    def read(self, piece: Piece) -> list[Listed]:
        """The files of the partitions of a piece, in order.

        Raises CorruptMetadataError for damage, StorageError if the base file cannot be read.
        """
        records = self._base_records(piece) if piece.blocks else {}
        return [(partition_path(key), self._files(key, piece, records.get(key))) for key in piece.keys]

    def _files(self, key: str, piece: Piece, record: Record | None) -> dict[str, int]:
        if key in piece.unused:
            return {}
        if (change := piece.changes.get(key)) is not None:
            record = self.apply(change, record)
        return live_files(key, record)

    def apply(self, change: Change, record: Record | None) -> Record | None:
        """A record of the base file with what the logs say of it on top."""
        merged = None if change.anew else record
        for number, value in change.values:
            where, schema = self.sources[number]
            newer: Record = avro.read_datum(schema, value, where)
            merged = newer if merged is None else merge_two(merged, newer, where)
        return merged

    def _base_records(self, piece: Piece) -> dict[str, Record]:
        wanted = {key.encode(errors="surrogatepass") for key in piece.keys}
        found = [(key, value) for key, value in self._base_pairs(piece) if key in wanted]
        where, schema = self.sources[0]
        records = avro.read_data(schema, [value for _, value in found], where)
        return {key.decode(): record for (key, _), record in zip(found, records, strict=True)}

    def _base_pairs(self, piece: Piece) -> Iterator[tuple[bytes, bytes]]:
        path = str(self.base_path)
        start, last = piece.blocks[0].offset, piece.blocks[-1]
        data = self.storage.read_range(path, start, last.offset + last.size - start)
        ends = [*(block.key for block in piece.blocks[1:]), piece.before]
        for block, before in zip(piece.blocks, ends, strict=True):
            at = block.offset - start
            pairs = read_pairs(data[at : at + block.size], block.offset, self.codec, path)
            if pairs and not (block.key <= pairs[0][0] and (before is None or pairs[-1][0] < before)):
                raise corrupt(path, block.offset, "a block holds keys that its index has elsewhere")
            yield from pairs


@attrs.frozen
class FilesPartition:
    """The ``files`` partition, opened: its layers, and the keys of the partitions that are in use, in order."""

    reader: PieceReader
    base: HFile | None = attrs.field(repr=False)
    logs: tuple[Layer, ...] = attrs.field(repr=False)
    live_keys: tuple[str, ...] = attrs.field(repr=False)

    @classmethod
    def open(cls, storage: Storage, base_path: str | None, logs: Iterable[Layer]) -> FilesPartition:
        """Open the partition from the path of its base file, if it has one, and the layers on top.

        Raises CorruptMetadataError for damage, UnsupportedFeatureError for an HFile that cannot be read.
        """
        logs = tuple(logs)
        base = None if base_path is None else _open_base(storage, base_path)
        puts = (base, *(layer.puts for layer in logs))
        # One object for all equal schemas, which are long, or each of them would be shipped.
        sources = tuple((source.where, intern(source.schema)) if source else ("", "") for source in puts)
        for schema, where in {schema: where for where, schema in sources if schema}.items():
            check_lists_files(schema, where)
        reader = PieceReader(storage, base_path, base.codec if base else "", sources)
        value = base.get(ALL_PARTITIONS.encode()) if base else None
        record = None if value is None else avro.read_datum(sources[0][1], value, sources[0][0])
        if (change := _change_of(logs, ALL_PARTITIONS)) is not None:
            record = reader.apply(change, record)
        listed = entries_of(record, ALL_PARTITIONS, RecordType.ALL_PARTITIONS)
        live = sorted(key for key, entry in listed.items() if not entry["isDeleted"])
        return cls(reader, base, logs, tuple(live))

    @property
    def partitions(self) -> Iterator[str]:
        """The paths of the partitions in use."""
        return map(partition_path, self.live_keys)

    def listed(self, partitions: Iterable[str]) -> Iterator[Listed]:
        """The files of these partitions, one after the other and not in the order given."""
        for piece in self.pieces(partitions, _PIECE_BYTES_HERE):
            yield from self.reader.read(piece)

    def pieces(self, partitions: Iterable[str], size: int = PIECE_BYTES) -> Iterator[Piece]:
        """What there is about these partitions, cut into pieces in the order of keys; one that is not in use is empty.

        A piece is done once it has ``size`` bytes of the base file or of logs. Raises CorruptMetadataError where the
        logs are damaged, as the walk comes there.
        """
        keys = sorted(set(map(partition_key, partitions)))  # Python's order of text is that of its UTF-8
        if not keys:
            return
        blocks = self.base.blocks() if self.base else []
        gathered = _Gathered(blocks, size)
        changes = _changes(self.logs)
        name, change = next(changes, (None, None))
        live = set(self.live_keys)
        for key in keys:
            raw = key.encode(errors="surrogatepass")  # a name that is no text is for others to refuse
            while name is not None and name < raw:
                name, change = next(changes, (None, None))
            used = key in live
            block = bisect_right(blocks, raw, key=lambda entry: entry.key) - 1 if used else -1
            if gathered.is_full(block):
                yield gathered.piece()
            gathered.add(key, block, change if name == raw and used else None, used=used)
        if gathered.keys:
            yield gathered.piece()


class _Gathered:
    """The piece that is being put together."""

    def __init__(self, blocks: Sequence[IndexEntry], size: int) -> None:
        self._all = blocks
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self.keys: list[str] = []
        self._unused: set[str] = set()
        self._first = self._last = -1
        self._changes: dict[str, Change] = {}
        self._carried = self._pointed_at = 0  # bytes that a piece has itself, and bytes of its blocks

    def is_full(self, block: int) -> bool:
        """True if a key that may be in this block (-1: in none) belongs into the next piece.

        Blocks of one piece lie next to each other. One block may serve several pieces, since any number of keys that
        only the logs know come after the last key of the base file.
        """
        if block < 0 or block == self._last:
            return self._carried >= self._size
        apart = self._last >= 0 and block != self._last + 1
        return apart or self._carried + self._pointed_at >= self._size

    def add(self, key: str, block: int, change: Change | None, *, used: bool) -> None:
        self.keys.append(key)
        self._carried += len(key) + _KEY_BYTES
        if not used:
            self._unused.add(key)
        if block >= 0 and block != self._last:
            self._first = block if self._first < 0 else self._first
            self._last = block
            self._pointed_at += self._all[block].size
        if change is not None:
            self._changes[key] = change
            self._carried += sum(len(value) for _, value in change.values)

    def piece(self) -> Piece:
        """What was gathered; the next piece begins."""
        blocks = self._all[self._first : self._last + 1] if self._last >= 0 else ()
        before = self._all[self._last + 1].key if 0 <= self._last < len(self._all) - 1 else None
        piece = Piece(tuple(self.keys), frozenset(self._unused), tuple(blocks), before, self._changes)
        self._begin()
        return piece


def _open_base(storage: Storage, path: str) -> HFile:
    size = storage.size(path)
    start = max(0, size - _TAIL_BYTES)
    tail = storage.read_range(path, start, size - start)
    return open_stored_hfile(_reading_tail_once(storage, path, start, tail), size, path)


def _reading_tail_once(storage: Storage, path: str, start: int, tail: bytes) -> Read:
    def read(offset: int, length: int) -> bytes:
        if offset >= start:
            return tail[offset - start : offset - start + length]
        return storage.read_range(path, offset, length)

    return read


def _change_of(logs: Iterable[Layer], key: str) -> Change | None:
    """What the logs say of one key."""
    said: list[_Said] = []
    for number, layer in enumerate(logs, 1):
        value = layer.puts.get(key.encode()) if layer.puts is not None else None
        if value is not None or key in layer.deleted_keys:
            said.append((number, value))
    return _change(said) if said else None


def _changes(logs: Iterable[Layer]) -> Iterator[tuple[bytes, Change]]:
    """What the logs say, key by key in order. Holds one block of each HFile at a time."""
    streams = (_stream(number, layer) for number, layer in enumerate(logs, 1))
    for key, said in groupby(merge_sorted(*streams), key=itemgetter(0)):
        yield key, _change((number, value) for _, number, value in said)


def _stream(number: int, layer: Layer) -> Iterator[tuple[bytes, int, bytes | None]]:
    if layer.puts is not None:
        yield from ((key, number, value) for key, value in layer.puts.entries())
    yield from ((key, number, None) for key in sorted({key.encode() for key in layer.deleted_keys}))


def _change(said: Iterable[_Said]) -> Change:
    anew = False
    values: list[tuple[int, bytes]] = []
    for number, value in said:
        if value is None:
            anew = True
            values.clear()
        else:
            values.append((number, value))
    return Change(anew, tuple(values))
