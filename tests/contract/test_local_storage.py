from __future__ import annotations

import errno
import multiprocessing
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contract.storage_contract import StorageContract, put

from lakemeta.errors import PathExistsError, PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.storage import LocalStorage, Storage, local, open_storage
from lakemeta.storage.contract import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def storage() -> Storage:
    return LocalStorage()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return open_storage(f"file://{tmp_path}")[1]


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A directory with one file that nobody may look into or change."""
    if os.getuid() == 0:
        pytest.skip("root may do everything")
    directory = tmp_path / "locked"
    directory.mkdir()
    (directory / "a").write_bytes(b"1")
    directory.chmod(0)
    yield directory
    directory.chmod(0o700)


class TestLocalStorage(StorageContract):
    pass


def _create(path: str, content: bytes, barrier: object, results: object) -> None:
    barrier.wait()
    try:
        LocalStorage().create(path, content)
    except PathExistsError:
        results.put(None)
    else:
        results.put(content)


def test_one_of_many_creating_processes_wins(root: str) -> None:
    """Of processes that create one file exactly one wins."""
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(4), spawn.Queue()
    workers = [spawn.Process(target=_create, args=(f"{root}/a", b"%d" % n * 1000, barrier, results)) for n in range(4)]
    for worker in workers:
        worker.start()
    won = [content for content in (results.get() for _ in workers) if content is not None]
    for worker in workers:
        worker.join()
    results.close()
    assert [Path(root, "a").read_bytes()] == won


def test_files_have_ordinary_permissions(storage: Storage, root: str) -> None:
    """Created, replaced and written files can be read by whom the umask allows."""
    storage.create(f"{root}/a", b"")
    storage.replace(f"{root}/b", b"")
    storage.open_output(f"{root}/c").close()
    umask = os.umask(0)
    os.umask(umask)
    assert {stat.S_IMODE(Path(root, name).stat().st_mode) for name in "abc"} == {0o666 & ~umask}


def test_left_temporary_files_are_not_listed(storage: Storage, root: str) -> None:
    """A crash inside create leaves a hidden file that no listing shows and delete_tree takes along."""
    put(storage, f"{root}/d/a")
    Path(root, "d", f".0123{TEMPORARY_SUFFIX}").touch()
    assert [e.name for e in storage.list_dir(f"{root}/d")] == ["a"]
    assert [e.name for e in storage.walk(root)] == ["a"]
    storage.delete_tree(f"{root}/d")
    assert not Path(root, "d").exists()


@pytest.mark.parametrize("write", ["create", "replace", "open_output"])
def test_no_stale_checksum_survives_new_content(storage: Storage, root: str, write: str) -> None:
    """Hadoop's checksum of old content goes before new content comes: readers would refuse the file."""
    checksum = Path(root, ".a.crc")
    checksum.write_bytes(b"old")
    if write == "open_output":
        storage.open_output(f"{root}/a").close()
    else:
        getattr(storage, write)(f"{root}/a", b"new")
    assert not checksum.exists()


def test_a_failed_create_keeps_the_others_checksum(storage: Storage, root: str) -> None:
    """A create that finds the path taken leaves the checksum of the file that is there."""
    Path(root, "a").write_bytes(b"1")
    Path(root, ".a.crc").write_bytes(b"crc")
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/a", b"2")
    assert Path(root, ".a.crc").exists()


def test_a_create_that_comes_second_keeps_the_others_checksum(
    storage: Storage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a file goes that another process makes while a create is under way.

    Hadoop makes a lock file, then its checksum file, and fails between the two if that one vanishes: nobody removes the
    lock file then.
    """

    def write(path: str, data: bytes) -> str:
        Path(root, "a").write_bytes(b"")
        Path(root, ".a.crc").write_bytes(b"crc")
        return written(path, data)

    written = local._write_temporary
    monkeypatch.setattr(local, "_write_temporary", write)
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/a", b"2")
    assert sorted(path.name for path in Path(root).iterdir()) == [".a.crc", "a"]


def test_deleting_takes_the_checksum_along(storage: Storage, root: str) -> None:
    """The checksum file goes with its file, and also if it is left alone."""
    Path(root, "a").write_bytes(b"1")
    Path(root, ".a.crc").write_bytes(b"crc")
    Path(root, ".b.crc").write_bytes(b"crc")
    statuses = [o.status for o in storage.delete_many([f"{root}/a", f"{root}/b"])]
    assert statuses == ["deleted", "absent"]
    assert list(Path(root).iterdir()) == []


def test_linked_directories_are_not_walked(
    storage: Storage, root: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """walk and delete_tree do not go through a link; list_dir shows it and can be pointed at it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_bytes(b"1")
    table = Path(root, "t")
    table.mkdir()
    (table / "link").symlink_to(elsewhere)
    (table / "circle").symlink_to(table)
    (table / "file").symlink_to(elsewhere / "precious")
    assert [e.name for e in storage.walk(str(table))] == ["file"]
    assert [(e.name, e.is_dir) for e in storage.list_dir(str(table))] == [
        ("circle", True),
        ("file", False),
        ("link", True),
    ]
    assert [e.name for e in storage.list_dir(f"{table}/link")] == ["precious"]
    storage.delete_tree(str(table))
    assert not table.exists()
    assert (elsewhere / "precious").exists()


def test_links_are_told_and_resolved(storage: Storage, root: str) -> None:
    """A link to a directory is one that says so; a link to itself or to nothing is none; all resolve in the end."""
    for name, target in {"here": ".", "up": "..", "self": "self", "one": "two", "two": "one", "none": "gone"}.items():
        Path(root, name).symlink_to(target)
    Path(root, "d").mkdir()
    listed = {e.name: (e.is_dir, e.is_link) for e in storage.list_dir(root)}
    assert {name for name, kind in listed.items() if kind == (True, True)} == {"here", "up"}
    assert {name for name, kind in listed.items() if kind == (True, False)} == {"d"}
    assert list(storage.walk(root)) != []
    base = storage.resolve(root)
    assert storage.resolve(f"{root}/here/here/d") == f"{base}/d"
    assert storage.resolve(f"{root}/up") == str(Path(base).parent)
    assert storage.resolve(f"{root}/none/x") == f"{base}/gone/x"
    storage.resolve(f"{root}/self/x")


@pytest.mark.parametrize("target", ["gone", "self", "d"])
def test_delete_tree_of_a_link_ends(storage: Storage, root: str, target: str) -> None:
    """Be it a broken one, or one to itself: it is refused."""
    Path(root, "d").mkdir()
    Path(root, "self").symlink_to(target)
    with pytest.raises(StorageError, match="symbolic link"):
        storage.delete_tree(f"{root}/self")
    assert Path(root, "d").exists()


def test_deleting_a_link_deletes_the_link(storage: Storage, root: str) -> None:
    """delete_many removes a link to a file, even a broken one, never its target."""
    Path(root, "a").write_bytes(b"1")
    Path(root, "link").symlink_to(Path(root, "a"))
    Path(root, "broken").symlink_to(Path(root, "none"))
    assert all(o.status == "deleted" for o in storage.delete_many([f"{root}/link", f"{root}/broken"]))
    assert [e.name for e in storage.list_dir(root)] == ["a"]


def test_delete_tree_refuses_a_linked_directory(storage: Storage, root: str) -> None:
    """The directory to remove must be one itself, no link to one."""
    put(storage, f"{root}/d/a")
    Path(root, "link").symlink_to(Path(root, "d"))
    with pytest.raises(StorageError, match="link"):
        storage.delete_tree(f"{root}/link")
    assert Path(root, "d", "a").exists()


def test_a_directory_in_the_way_is_a_failed_outcome(storage: Storage, root: str) -> None:
    """Deleting a directory as if it were a file fails, and says why."""
    Path(root, "d").mkdir()
    (outcome,) = storage.delete_many([f"{root}/d"])
    assert outcome.status == "failed"
    assert outcome.error


def test_permission_errors_name_the_path(storage: Storage, locked: Path) -> None:
    """What must not be touched raises StorageError, or is a failed outcome."""
    for way in (storage.list_dir, storage.read, lambda path: list(storage.walk(path))):
        with pytest.raises(StorageError, match="locked"):
            way(str(locked))
    with pytest.raises(StorageError, match="locked"):
        list(storage.walk(str(locked.parent)))
    with pytest.raises(StorageError, match="locked/b"):
        storage.create(f"{locked}/b", b"")
    (outcome,) = storage.delete_many([f"{locked}/a"])
    assert outcome.status == "failed"
    assert "PermissionError" in (outcome.error or "")


def test_a_listing_that_fails_part_way_raises(storage: Storage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be read fails the whole walk; one that has just vanished is empty."""
    put(storage, f"{root}/a", f"{root}/d/b")
    scan = os.scandir
    trouble: list[OSError] = [PermissionError(errno.EACCES, "no way in"), OSError(errno.EIO, "bad disk")]

    def broken(path: str | int) -> object:
        if isinstance(path, str) and path.endswith("/d"):
            raise trouble[0]
        return scan(path)

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(StorageError, match=r"/d: .*no way in"):
        list(storage.walk(root))
    trouble.pop(0)
    with pytest.raises(StorageError, match=r"/d: .*bad disk"):
        list(storage.walk(root))
    trouble[0] = FileNotFoundError(errno.ENOENT, "gone")
    assert [e.name for e in storage.walk(root)] == ["a"]


def test_a_disk_without_hard_links_is_refused(storage: Storage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hard links, no exclusive create: refused by name, nothing left behind."""

    def link(source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UnsupportedFeatureError, match="hard links"):
        storage.create(f"{root}/a", b"")
    assert list(Path(root).iterdir()) == []


def test_a_link_request_repeated_by_nfs_is_our_own(
    storage: Storage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS may report our own link as somebody else's file; the link count tells."""
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    storage.create(f"{root}/a", b"mine")
    assert storage.read(f"{root}/a") == b"mine"


def test_names_that_are_too_long(storage: Storage, root: str) -> None:
    """No file has such a name, so it is absent; one whose checksum file would have such a name is deleted."""
    storage.create(f"{root}/a", b"")
    longest, too_long = f"{root}/{'x' * 255}", f"{root}/{'x' * 256}"
    Path(longest).write_bytes(b"1")
    assert [outcome.status for outcome in storage.delete_many([longest, too_long])] == ["deleted", "absent"]
    assert not storage.exists(too_long)
    storage.delete_tree(too_long)
    for look in (storage.list_dir, storage.read):
        with pytest.raises(PathNotFoundError, match="no file has a name that long"):
            look(too_long)
    with pytest.raises(StorageError, match="too long"):
        storage.create(too_long, b"")


def test_a_move_that_was_cut_short(storage: LocalStorage, root: str) -> None:
    """Both names of one file are left by it, and the same move takes the old one away; side files go with it."""
    storage.replace(f"{root}/a", b"1")
    Path(root, "q").mkdir()
    os.link(f"{root}/a", f"{root}/q/a")
    Path(root, ".a.crc").write_bytes(b"of an earlier file")
    assert [o.status for o in storage.move_many([(f"{root}/a", f"{root}/q/a")])] == ["deleted"]
    assert sorted(os.listdir(root)) == ["q"]
    assert os.listdir(f"{root}/q") == ["a"]


def test_a_link_is_moved_itself(storage: LocalStorage, root: str) -> None:
    """What it leads to stays where it is."""
    storage.replace(f"{root}/far", b"1")
    Path(root, "link").symlink_to(f"{root}/far")
    assert [o.status for o in storage.move_many([(f"{root}/link", f"{root}/q/link")])] == ["deleted"]
    assert Path(root, "q/link").is_symlink()
    assert Path(root, "far").exists()


def test_a_disk_without_hard_links_moves_too(storage: LocalStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a rename, once it is sure that nothing is in the way."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    for name in ("a", "b"):
        Path(root, name).write_bytes(name.encode())
    moved, failed = storage.move_many([(f"{root}/a", f"{root}/q/a"), (f"{root}/b", f"{root}/q/a")])
    assert (moved.status, failed.status) == ("deleted", "failed")
    assert (Path(root, "q/a").read_bytes(), Path(root, "b").read_bytes()) == (b"a", b"b")


@pytest.mark.parametrize("synced", [True, False])
def test_files_grow(storage: LocalStorage, root: str, synced: bool) -> None:
    """What is appended comes after what is there; a file that is not there is not made."""
    storage.create(f"{root}/a", b"1")
    storage.append(f"{root}/a", b"23", synced=synced)
    storage.append(f"{root}/a", b"", synced=synced)
    assert storage.read(f"{root}/a") == b"123"
    with pytest.raises(PathNotFoundError):
        storage.append(f"{root}/none", b"1", synced=synced)
    assert not Path(root, "none").exists()
