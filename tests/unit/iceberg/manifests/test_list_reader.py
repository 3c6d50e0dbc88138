"""Many lists of one table: read together they say what each says alone, and equal lines are one value."""

from __future__ import annotations

import pickle
import tarfile

import pytest
from support.iceberg_cases import DATA

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.manifests.codec import read_manifest_list
from lakemeta.iceberg.manifests.list_reader import ManifestLists

ARCHIVES = [
    DATA / "partitioned_v1.tar.xz",
    DATA / "expire_branches_tags.tar.xz",
    *(DATA.with_name("iceberg_expire") / f"{name}.tar.xz" for name in ("expire_clean_meta_a", "expire_dv_a")),
]


def lists_of(path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        names = [name for name in archive.getnames() if "/snap-" in name and name.endswith(".avro")]
        return {name: archive.extractfile(name).read() for name in names}


@pytest.mark.parametrize("archive", ARCHIVES, ids=[path.name.partition(".")[0] for path in ARCHIVES])
def test_lists_read_together(archive):
    """All lists of recorded tables of each version, one after another and again, on a copy that knows nothing too."""
    lists, reader = lists_of(archive), ManifestLists()
    assert lists
    for name, data in [*lists.items(), *lists.items()]:
        assert list(reader.read(data, name)) == read_manifest_list(data, name)
    elsewhere = pickle.loads(pickle.dumps(reader))
    assert all(elsewhere.read(data, name) == reader.read(data, name) for name, data in lists.items())


def test_equal_lines_are_one_value():
    """Lists of one table repeat each other's lines."""
    lists, reader = lists_of(ARCHIVES[1]), ManifestLists()
    lines = [line for name, data in lists.items() for line in reader.read(data, name)]
    assert len({id(line) for line in lines}) == len(set(lines)) < len(lines)


def test_lists_that_are_laid_out_otherwise():
    """A path longer than patterns know is read all the same; what is no list is refused as ever."""
    name, data = next(iter(lists_of(ARCHIVES[1]).items()))
    schema, records = avro.read_container(data, name)
    header = {k: v for k, v in avro.container_metadata(data, name).items() if not k.startswith("avro.")}
    reader = ManifestLists()
    for number in range(3):
        long = [{**r, "manifest_path": r["manifest_path"] + "x" * 200 * number} for r in records]
        if number == 2:  # a key that no pattern knows, as it is too long
            long = [{**r, "key_metadata": b"k" * 300} for r in long]
        changed = avro.write_container(schema, long, metadata=header)
        if number == 2:
            with pytest.raises(UnsupportedFeatureError, match="encrypted"):
                reader.read(changed, name)
        else:
            assert [m.manifest_path for m in reader.read(changed, name)] == [r["manifest_path"] for r in long]
    for broken in (b"", data[:50], data[:-20]):
        with pytest.raises(CorruptMetadataError):
            reader.read(broken, name)


def test_a_new_line_is_checked():
    """A line that no list had before is held to the same rules as the first."""
    name, data = next(iter(lists_of(ARCHIVES[1]).items()))
    reader = ManifestLists()
    reader.read(data, name)
    schema, records = avro.read_container(data, name)
    header = {k: v for k, v in avro.container_metadata(data, name).items() if not k.startswith("avro.")}
    wrong = [{**records[0], "added_files_count": 0, "added_rows_count": 5}]
    with pytest.raises(CorruptMetadataError, match="0 added files with 5 rows"):
        reader.read(avro.write_container(schema, wrong, metadata=header), name)
