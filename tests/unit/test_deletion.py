"""The one door through which anything is deleted: what it lets through, and that nobody goes around it."""

from __future__ import annotations

import ast
import pickle
import re
from functools import cache
from pathlib import Path

import pytest

from lakemeta.deletion import Door, Links
from lakemeta.errors import CorruptMetadataError, LakemetaError, StorageError, UnsupportedFeatureError
from lakemeta.hudi.files.doors import data_door, emptied_door, lock_door, metadata_door
from lakemeta.iceberg.catalogs import doors as iceberg_doors
from lakemeta.storage import LocalStorage, open_storage

ROOT = Path(__file__).parents[2]
T = "20260101000000000"


@pytest.mark.parametrize("base", ["", "/"])
def test_a_door_to_everything_lets_nothing_through(base: str) -> None:
    """A base that is the root of the disks or of the store is a mistake."""
    with pytest.raises(CorruptMetadataError):
        Door(LocalStorage(), base, ".*", ".*").check_files(["/x"])
    with pytest.raises(CorruptMetadataError):
        Door(LocalStorage(), base, ".*", ".*").check_directory("/x")


OPERATIONS = ("delete_many", "delete_tree", "move_many")
MEANS = ("unlink", "remove", "rmtree", "rmdir", "removedirs", "rm", "rm_file")


@cache
def sources() -> dict[str, list[ast.AST]]:
    """The nodes of every module that has a word for deleting in it, by path."""
    paths = [path for package in ("lakemeta", "lakemeta_spark") for path in (ROOT / package).rglob("*.py")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {
        path: list(ast.walk(ast.parse(text)))
        for path, text in texts.items()
        if not path.startswith("lakemeta/storage/")
        and re.search(rf"\b(?:{'|'.join(OPERATIONS)})\b|\.(?:{'|'.join(MEANS)})\(", text)
    }


def test_nobody_goes_around_the_door() -> None:
    """Only the storages and the door name the operations that delete or move, be it as text."""
    users = set()
    for path, nodes in sources().items():
        names = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        names |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        if not names.isdisjoint(OPERATIONS):
            users.add(path)
    assert users == {"lakemeta/deletion.py"}


def test_nobody_deletes_by_other_means() -> None:
    """What lies on this machine's disks is deleted by a storage too."""
    calls = {path: [n.func for n in nodes if isinstance(n, ast.Call)] for path, nodes in sources().items()}
    assert not [
        p for p, called in calls.items() if any(isinstance(f, ast.Attribute) and f.attr in MEANS for f in called)
    ]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table ``t`` with ``p1/a`` beside a directory ``victim``, and links of every kind."""
    root = tmp_path / "t"
    for path in ("t/p1/a", "t/a=1/b=2/a", "t/.hoodie/hoodie.properties", "t/.hoodie/metadata/x", "victim/a", "t2/a"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"1")
    (root / "out").symlink_to(tmp_path / "victim")
    (root / "within").symlink_to(root / "p1")
    (root / "hidden").symlink_to(root / ".hoodie")
    (root / "a=2").symlink_to(root / "a=1")
    (root / "circle").symlink_to(root)
    (root / "dangling").symlink_to(tmp_path / "none")
    (root / "self").symlink_to(root / "self")
    (root / "p1" / "file").symlink_to(tmp_path / "victim" / "a")
    return root


def everything(root: Path) -> set[str]:
    return {str(path) for path in root.parent.rglob("*")}


OUTSIDE = [
    "",
    "/",
    "a",
    "/etc/passwd",
    "{root}",
    "{root}/",
    "{root}//p1/a",
    "{root}/p1//a",
    "{root}/p1/a/",
    "{root}/./p1/a",
    "{root}/p1/./a",
    "{root}/p1/..",
    "{root}/p1/../p1/a",
    "{root}/../victim/a",
    "{root}/p1/../../victim/a",
    "{root}2/a",
    "{root}/../t2/a",
    "{root}/p1/a\0",
    "{root}/\0/a",
    "file:{root}/p1/a",
    "{root}/.hoodie",
    "{root}/.hoodie/hoodie.properties",
    "{root}/.HOODIE/hoodie.properties",
    "{root}/p1/.hoodie/x",
    "{root}/p1/.Hoodie",
    "{root}/.hoodie/metadata/x",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_is_no_data_of_the_table_stays(table: Path, path: str) -> None:
    """Whatever is outside the table, the table itself or its metadata is refused, and all beside it in the call."""
    before = everything(table)
    door = data_door(LocalStorage(), str(table))
    with pytest.raises(CorruptMetadataError, match="nothing was done"):
        door.delete_files([f"{table}/p1/a", path.format(root=table)])
    with pytest.raises(CorruptMetadataError, match="nothing was done"):
        door.delete_directory(path.format(root=table))
    assert everything(table) == before


@pytest.mark.parametrize(
    "name", ["%2e%2e/victim/a", "..%2fvictim/a", "..\\victim/a", "p=x%3Dy/a", "p 1/#a?", "metadata/a"]
)
def test_names_are_taken_as_they_are(table: Path, name: str) -> None:
    """Nothing is decoded: such names are ordinary ones, of files that are not there."""
    (outcome,) = data_door(LocalStorage(), str(table)).delete_files([f"{table}/{name}"])
    assert outcome.status == "absent"


@pytest.mark.parametrize(
    "link", ["out", "within", "hidden", "circle", "circle/p1", "a=2/b=2", "dangling", "dangling/x"]
)
def test_nothing_goes_behind_a_link(table: Path, link: str) -> None:
    """A link out of the table, within it, into its metadata or in a circle: no file behind it goes, nor the link."""
    before = everything(table)
    door = data_door(LocalStorage(), str(table))
    with pytest.raises(UnsupportedFeatureError, match="symbolic link"):
        door.delete_files([f"{table}/p1/a", f"{table}/{link}/a"])
    with pytest.raises((UnsupportedFeatureError, StorageError), match="symbolic link"):
        door.delete_directory(f"{table}/{link}")
    assert everything(table) == before


def test_a_link_to_itself_hides_nothing(table: Path) -> None:
    """It leads nowhere, so the file behind it cannot be deleted, and the call ends."""
    (outcome,) = data_door(LocalStorage(), str(table)).delete_files([f"{table}/self/a"])
    assert outcome.status == "failed"
    with pytest.raises(StorageError, match="symbolic link"):
        data_door(LocalStorage(), str(table)).delete_directory(f"{table}/self")


def test_a_link_to_a_file_goes_itself(table: Path) -> None:
    """Its target stays."""
    (outcome,) = data_door(LocalStorage(), str(table)).delete_files([f"{table}/p1/file"])
    assert outcome.status == "deleted"
    assert (table.parent / "victim/a").exists()


def test_the_table_itself_may_be_reached_through_a_link(table: Path) -> None:
    """What leads to the table is not the table's business."""
    here = table.parent / "here"
    here.symlink_to(table)
    door = data_door(LocalStorage(), str(here))
    assert [o.status for o in door.delete_files([f"{here}/p1/a"])] == ["deleted"]
    door.delete_directory(f"{here}/a=1")
    assert not (table / "a=1").exists()


def test_doors_are_shipped_to_workers(table: Path) -> None:
    """A copy lets through what the door did."""
    door = pickle.loads(pickle.dumps(data_door(LocalStorage(), str(table))))
    assert [o.status for o in door.delete_files([f"{table}/p1/a"])] == ["deleted"]


METADATA = [
    (f"{T}.commit.requested", True),
    (f"{T}.inflight", True),
    (f"timeline/{T}.deltacommit.inflight", True),
    (f".heartbeat/{T}", True),
    ("hoodie.properties.backup", True),
    (f"metadata/.hoodie/timeline/{T}.deltacommit.requested", True),
    (f"metadata/.hoodie/{T}.deltacommit", True),
    (f"metadata/.hoodie/timeline/{T}_{T}.deltacommit", True),
    ("metadata/files/.files-0000-0_20260101000000000.log.1_0-0-0", True),
    (f"{T}.commit", False),
    (f"timeline/{T}_{T}.commit", False),
    (f"timeline/{T}_{T}.savepoint", False),
    (f"{T}.deltacommit", False),
    ("hoodie.properties", False),
    ("metadata/.hoodie/hoodie.properties", False),
    ("metadata/files/files-0000-0_0-0-0_20260101000000000.hfile", False),
    ("timeline/history/manifest_1", False),
    ("../p1/a", False),
    (".heartbeat/../hoodie.properties", False),
    (".heartbeat/a", False),
    ("metadata", False),
]


@pytest.mark.parametrize(("name", "goes"), METADATA)
def test_of_the_metadata_only_known_shapes_go(table: Path, name: str, goes: bool) -> None:
    """Completed instants, properties and the archive are deleted by nobody."""
    door = metadata_door(LocalStorage(), str(table))
    if goes:
        door.check_files([f"{table}/.hoodie/{name}"])
    else:
        with pytest.raises(CorruptMetadataError):
            door.delete_files([f"{table}/.hoodie/{name}"])


DIRECTORIES = [
    ("metadata", True),
    (f".temp/{T}", True),
    (f".temp/{T}006", True),
    ("", False),
    (".temp", False),
    (".temp/", False),
    (".temp/..", False),
    (f".temp/{T}/..", False),
    (".temp/../../p1", False),
    (".temp/../../../victim", False),
    (f".temp/{T}/p1", False),
    (".temp/2026", False),
    (".temp/" + "\uff12" * 17, False),
    ("timeline", False),
    ("metadata/files", False),
]


@pytest.mark.parametrize(("name", "goes"), DIRECTORIES)
def test_of_the_metadata_only_two_kinds_of_directories_go(table: Path, name: str, goes: bool) -> None:
    """The metadata table as a whole, and the markers of one instant."""
    before = everything(table)
    door = metadata_door(LocalStorage(), str(table))
    if goes:
        door.delete_directory(f"{table}/.hoodie/{name}")
    else:
        with pytest.raises(CorruptMetadataError):
            door.delete_directory(f"{table}/.hoodie/{name}")
        assert everything(table) == before


COMPLETED = {f"{T}.clean": True, f"timeline/{T}_{T}.clean": True, f"{T}.commit": False, f"{T}.cleans": False}


@pytest.mark.parametrize(("name", "goes"), COMPLETED.items())
def test_of_completed_instants_only_cleans_go(table: Path, name: str, goes: bool) -> None:
    """By a door of their own."""
    door = emptied_door(LocalStorage(), str(table))
    if goes:
        door.check_files([f"{table}/.hoodie/{name}"])
    else:
        with pytest.raises(CorruptMetadataError):
            door.check_files([f"{table}/.hoodie/{name}"])


@pytest.mark.parametrize("name", ["locks", "lock2", "../t/lock", "lock/..", "a/lock"])
def test_of_a_lock_only_its_file_goes(table: Path, name: str) -> None:
    """A lock file may lie anywhere, and nothing beside it goes."""
    with pytest.raises(CorruptMetadataError):
        lock_door(LocalStorage(), f"{table}/lock").delete_files([f"{table}/{name}"])
    lock_door(LocalStorage(), f"{table}/lock").delete_files([f"{table}/lock"])


UUID = "0d5e4a5e-7e5f-4d4c-9a53-0c1e5b1d2f3a"
OURS = f"00000-0-{UUID}-00001.parquet"


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        (OURS, True),
        (f"p=a/{OURS}", True),
        (f"0101/1010/1111/01010101-{OURS}", True),
        (OURS.replace("0d5e", "0d5f"), False),
        (f"{OURS}/x", False),
        (f"../metadata/{OURS}", False),
        (f"p=a//{OURS}", False),
        ("part-00000.parquet", False),
        ("v1.metadata.json", False),
    ],
)
def test_of_iceberg_data_only_files_of_the_run_go(tmp_path: Path, name: str, goes: bool) -> None:
    """A data file that another writer named is deleted by nobody."""
    from support.iceberg_tables import create_table

    small = create_table(LocalStorage(), str(tmp_path / "t"))
    door = iceberg_doors.data_door(small.storage, small.operations.current().metadata, UUID)
    if goes:
        door.check_files([f"{small.root}/data/{name}"])
    else:
        with pytest.raises(CorruptMetadataError):
            door.delete_files([f"{small.root}/data/{name}"])


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("snap-1-1-a.avro", True),
        ("v3.metadata.json", True),
        ("v3.gz.metadata.json", True),
        (f".lakemeta-rewrite-{UUID}.json", True),
        ("version-hint.text", False),
        ("../data/a.avro", False),
        ("deep/a.avro", False),
        ("", False),
        ("stats.puffin", False),
    ],
)
def test_of_iceberg_metadata_only_known_shapes_go(tmp_path: Path, name: str, goes: bool) -> None:
    """Files of the metadata directory itself, by their endings; the hint stays."""
    door = iceberg_doors.metadata_door(LocalStorage(), f"{tmp_path}/metadata")
    if goes:
        door.check_files([f"{tmp_path}/metadata/{name}"])
    else:
        with pytest.raises(CorruptMetadataError):
            door.delete_files([f"{tmp_path}/metadata/{name}"])


@pytest.mark.parametrize("path", ["t/p1/a", "/t/../u/a", "/t//a", "/u/a", "/t", "/t/"])
def test_stores_without_links_have_the_same_doors(path: str) -> None:
    """What is text is refused everywhere."""
    storage, root = open_storage("memory://t")
    with pytest.raises(LakemetaError):
        data_door(storage, root).delete_files([path])
    assert [o.status for o in data_door(storage, root).delete_files([f"{root}/p1/a"])] == ["absent"]
    assert not Links(storage, root).hide("p1")


def test_each_directory_is_looked_up_once(table: Path) -> None:
    """All files of one partition cost one resolution of its directory and one of the table's."""

    class Counting(LocalStorage):
        resolved: list[str] = []

        def resolve(self, path: str) -> str:
            self.resolved.append(path)
            return super().resolve(path)

    storage = Counting()
    Door(storage, str(table), ".*").check_files(f"{table}/p1/{n}" for n in range(10_000))
    assert storage.resolved == [str(table), f"{table}/p1"]
