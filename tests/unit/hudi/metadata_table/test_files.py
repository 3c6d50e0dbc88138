"""The ``files`` partition read piece by piece: what comes out, and how little anybody holds."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults import WrappedStorage
from support.hbase_files import hbase_file
from support.hudi_mdt_records import SCHEMA, T1, files, hfile, log

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.hudi.metadata_table import files as reading
from lakemeta.hudi.metadata_table import hfile_writer
from lakemeta.hudi.metadata_table.files import FilesPartition
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.merge import log_layers
from lakemeta.hudi.metadata_table.records import RecordType
from lakemeta.storage.remote import MemoryStorage

ALL = "__all_partitions__"
BASE = "/mdt/files/base.hfile"
Files = dict[str, tuple[int, bool]]
paths = st.sampled_from(["", "a", "a/b", "b", "zz", "ü", "\U0001f600"])
names = st.sampled_from(["f", "g", "h", "i.parquet"])
entries = st.dictionaries(names, st.just((0, True)) | st.tuples(st.integers(1, 9), st.just(False)), max_size=3)
records = st.dictionaries(paths, entries, min_size=1)
layers = st.lists(records | st.lists(paths, min_size=1), max_size=5)


def key(path: str) -> str:
    return path or "."


def listed_partitions(*live: str, gone: Iterable[str] = ()) -> tuple[str, bytes]:
    listed = {**{key(p): (0, False) for p in live}, **{key(p): (0, True) for p in gone}}
    return ALL, files(listed, RecordType.ALL_PARTITIONS)


def opened(base: bytes | None, *contents: bytes | list[str]) -> FilesPartition:
    storage = MemoryStorage("memory")
    if base is not None:
        storage.replace(BASE, base)
    blocks = [("log", block) for block in read_blocks(log(*contents, instant=T1), "log")]
    assert all(isinstance(block, LogBlock) for _, block in blocks)
    return FilesPartition.open(storage, BASE if base is not None else None, log_layers(blocks))


def listing(base: bytes | None, *contents: bytes | list[str]) -> dict[str, dict[str, int]]:
    opening = opened(base, *contents)
    return dict(opening.listed(opening.partitions))


def encoded(layer: dict[str, Files]) -> list[tuple[str, bytes]]:
    return [(key(path), files(entries)) for path, entries in layer.items()]


def put(layer: dict[str, Files]) -> bytes:
    return hfile(*encoded(layer))


def reference(written: Iterable[dict[str, Files] | list[str]]) -> dict[str, dict[str, int]]:
    """Live files and sizes after all layers, worked out one file at a time."""
    live: dict[str, dict[str, int]] = {}
    for layer in written:
        if isinstance(layer, list):
            for path in layer:
                live.pop(path, None)
            continue
        for path, entries in layer.items():
            partition = live.setdefault(path, {})
            for name, (size, deleted) in entries.items():
                if deleted:
                    partition.pop(name, None)
                else:
                    partition[name] = max(size, partition.get(name, 0))
    return live


@given(st.none() | records, layers, st.lists(paths, unique=True), st.integers(1, 500), st.integers(1, 500))
def test_pieces_give_what_was_written(
    base: dict[str, Files] | None,
    above: list[dict[str, Files] | list[str]],
    asked: list[str],
    block_bytes: int,
    piece_bytes: int,
) -> None:
    """However small pieces and blocks are, and wherever they are read; files come and go, and sizes only grow."""
    expected = reference([base or {}, *above])
    live = [path for number, path in enumerate(sorted(expected)) if number % 3]
    with patch.object(hfile_writer, "BLOCK_SIZE", block_bytes):
        contents = [[key(p) for p in layer] if isinstance(layer, list) else put(layer) for layer in above]
        below = None if base is None else hfile(listed_partitions("gone"), *encoded(base))
        opening = opened(below, *contents, hfile(listed_partitions(*live, gone=["gone"])))
    pieces = list(opening.pieces(asked, piece_bytes))
    assert [key for piece in pieces for key in piece.keys] == sorted(map(key, asked))
    shipped = pickle.loads(pickle.dumps((opening.reader, pieces)))
    found = dict(item for piece in shipped[1] for item in shipped[0].read(piece))
    assert found == {path: expected[path] if path in live else {} for path in asked}
    assert sorted(opening.partitions) == live


def test_a_deleted_partition_is_not_listed() -> None:
    """Its entry in the list of partitions is deleted, or was never there."""
    base = hfile(listed_partitions("p", ""), ("p", files({"a": (1, False)})), (".", files({})))
    gone = hfile(listed_partitions(gone=("p", "q")))
    assert listing(base) == {"": {}, "p": {"a": 1}}
    assert listing(base, gone, ["p"]) == {"": {}}


def test_what_lists_nothing_by_mistake_is_damage() -> None:
    """A partition in use without a record of its files would be dropped, and so would all without a list of them."""
    base = hfile(listed_partitions("p"), ("p", files({"a": (1, False)})))
    with pytest.raises(CorruptMetadataError, match="no record for 'p'"):
        listing(base, ["p"])
    with pytest.raises(CorruptMetadataError, match="no record for '__all_partitions__'"):
        listing(base, [ALL])
    with pytest.raises(CorruptMetadataError, match="no record for '__all_partitions__'"):
        listing(None)
    with pytest.raises(CorruptMetadataError, match="a record of type 3 for 'p'"):
        listing(hfile(listed_partitions("p"), ("p", files({"a": (1, False)}, RecordType.COLUMN_STATS))))


def test_a_live_file_without_size_is_damage() -> None:
    """Hudi refuses it too."""
    base = hfile(listed_partitions("p"), ("p", files({"a": (0, False)})))
    with pytest.raises(CorruptMetadataError, match="without size in partition 'p'"):
        listing(base)


@cache
def many(partitions: int, of: int = 20) -> dict[str, Files]:
    return {f"day={p:05d}": {f"{p}-{n}.parquet": (p + n + 1, False) for n in range(of)} for p in range(partitions)}


@cache
def encoded_many(partitions: int) -> list[tuple[str, bytes]]:
    return encoded(many(partitions))


def test_who_cuts_decodes_nothing_but_the_list_of_partitions() -> None:
    """A record that does not decode is found by who reads its piece; those before it are read."""
    table = many(3000)
    junk = {"day=02000": b"junk"}
    values = {path: files(entries) for path, entries in table.items()} | junk
    base = hfile(listed_partitions(*table), *values.items())
    with patch.object(avro, "read_data") as decoded, patch.object(avro, "read_datum", wraps=avro.read_datum) as single:
        opening = opened(base, hfile(("day=00001", files({"new": (1, False)}))))
        pieces = list(opening.pieces(table))
    decoded.assert_not_called()
    assert single.call_count == 1
    damaged = [piece for piece in pieces if junk.keys() & set(piece.keys)]
    assert len(damaged) == 1 < len(pieces)
    with pytest.raises(CorruptMetadataError):
        opening.reader.read(damaged[0])
    first = dict(opening.reader.read(pieces[0]))
    assert first["day=00001"] == {"new": 1} | {name: size for name, (size, _) in table["day=00001"].items()}


class ReadLog(WrappedStorage):
    """Notes how many bytes are read."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage("memory"))
        self.lengths: list[int] = []

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read_range(path, start, length)


@pytest.mark.slow
def test_pieces_are_small_and_read_once() -> None:
    """Of a base file the end is read to open it, then every block once, some hundreds of kB at a time."""
    table = many(8000)
    base = hfile(listed_partitions(*table), *encoded_many(len(table)))
    storage = ReadLog()
    storage.replace(BASE, base)
    opening = FilesPartition.open(storage, BASE, ())
    storage.lengths.clear()
    pieces = list(opening.pieces(table))
    assert storage.lengths == []
    assert sum(len(opening.reader.read(piece)) for piece in pieces) == len(table)
    assert len(storage.lengths) == len(pieces) > 3
    assert max(storage.lengths) < 2 * reading.PIECE_BYTES
    assert sum(storage.lengths) < len(base)


@pytest.mark.parametrize("base", [None, "other partitions", "some of them"])
def test_pieces_of_what_only_logs_know_are_small(base: str | None) -> None:
    """All keys after the last one of the base file are in its last block, as far as its index goes."""
    table = many(3000)
    before = {"some of them": many(100), "other partitions": {"a": {"f": (1, False)}}}.get(base or "", {})
    opening = opened(hfile(listed_partitions(*before), *encoded(before)) if base else None, put(table), all_of(table))
    pieces = list(opening.pieces(table))
    assert len(pieces) > 5
    assert max(len(pickle.dumps(piece)) for piece in pieces) < 2 * reading.PIECE_BYTES
    expected = reference([before, table])
    assert dict(opening.listed(table)) == {path: expected[path] for path in table}


def all_of(table: dict[str, Files]) -> bytes:
    return hfile(listed_partitions(*table))


def test_partitions_that_are_not_in_use_cut_no_block() -> None:
    """Asked for between others, they are in no block, and the others stay together."""
    table = many(3000)
    used = [path for number, path in enumerate(table) if number % 2]
    base = hfile(listed_partitions(*used), *encoded_many(len(table)))
    whole, half = opened(hfile(listed_partitions(*table), *encoded_many(len(table)))), opened(base)
    assert len(list(half.pieces(table))) <= len(list(whole.pieces(table))) + 1
    listed = dict(half.listed(table))
    assert {path for path, files in listed.items() if files} == set(used)


def test_of_few_partitions_few_blocks_are_read() -> None:
    """Blocks between them are not touched; what is not in use is in no block."""
    table = many(8000)
    base = hfile(listed_partitions(*table), *encoded_many(len(table)))
    opening = opened(base)
    pieces = list(opening.pieces(["day=00000", "day=04000", "day=07999", "day=99999"]))
    assert [len(piece.blocks) for piece in pieces] == [1, 1, 1]
    listed = dict(item for piece in pieces for item in opening.reader.read(piece))
    assert [len(files) for files in listed.values()] == [20, 20, 20, 0]


def test_blocks_with_keys_that_their_index_has_elsewhere_are_damage() -> None:
    """A partition would seem to have no files."""
    base = small_base("a", "b", "c")
    at = base.index(b"\0\1c\0\x7f", base.index(b"IDXROOT2"))
    with pytest.raises(CorruptMetadataError, match="keys that its index has elsewhere"):
        listing(base[: at + 2] + b"d" + base[at + 3 :], hfile(listed_partitions("d"), ("d", files({}))))


def test_a_base_file_that_shrinks_is_damage() -> None:
    """Whatever a range read gives short is noticed."""
    table = many(3000)
    base = hfile(listed_partitions(*table), *encoded_many(len(table)))
    opening = opened(base)
    MemoryStorage("memory").replace(BASE, base[:1000])
    with pytest.raises(CorruptMetadataError, match=r"base\.hfile is damaged at byte"):
        dict(opening.listed(table))


def small_base(*partitions: str) -> bytes:
    """A base file with a block for each key, and nothing that guards its bytes."""
    table = {path: {f"{path}-{n}.parquet": (n + 1, False) for n in range(2)} for path in partitions}
    pairs = [listed_partitions(*table), *encoded(table)]
    with patch.object(hfile_writer, "BLOCK_SIZE", 1):
        return write_hfile(sorted((key.encode(), value) for key, value in pairs), SCHEMA.text, 0, codec="NONE")


@given(st.integers(0, len(small_base("a", "b", "c")) - 1), st.integers(0, 7))
def test_damage_empties_no_partition(at: int, bit: int) -> None:
    """Any bit of a file without compression or checksums: an error of ours, or an answer.

    If it is in the index or the trailer, which no codec guards, the answer is the right one.
    """
    whole = small_base("a", "b", "c")
    damaged = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    try:
        listed = listing(damaged)
    except LakemetaError:
        return
    assert at < whole.index(b"IDXROOT2") or listed == listing(whole)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_indexes_of_several_levels_are_cut_too(levels: int) -> None:
    """As HBase writes them, with blocks of an index between those of data."""
    table = many(31)
    pairs = sorted((key.encode(), value) for key, value in [listed_partitions(*table), *encoded_many(len(table))])
    opening = opened(hbase_file(levels, pairs=pairs, info=(b"schema", SCHEMA.text.encode()))[0])
    pieces = list(opening.pieces(table, 1))
    assert [len(piece.blocks) for piece in pieces] == [1] * 31
    assert dict(item for piece in pieces for item in opening.reader.read(piece)) == reference([table])


def test_a_name_that_is_no_text_has_no_files() -> None:
    """It comes from elsewhere, and whoever makes a plan refuses it."""
    assert dict(opened(small_base("a")).listed(["\udcff"])) == {"\udcff": {}}
