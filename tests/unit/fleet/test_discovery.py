"""Tables are found by what their directories have in them, and nothing is looked for inside of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemeta.errors import CatalogError, LakemetaError, StorageError
from lakemeta.fleet.discovery import Found, find_tables
from lakemeta.fleet.place_globs import PlaceGlob
from lakemeta.storage import LocalStorage
from lakemeta.storage.remote import MemoryStorage


def lake(put) -> None:
    """Two tables of each format, one of which lies inside of another, and folders that are none."""
    for path in (
        "gold/h/.hoodie/hoodie.properties",
        "gold/h/p=1/x.parquet",
        "gold/h/inner/.hoodie/hoodie.properties",
        "gold/h/.hoodie/metadata/.hoodie/hoodie.properties",
        "gold/deep/er/i/metadata/v1.metadata.json",
        "silver/i/metadata/00000-a.gz.metadata.json",
        "silver/metadata/notes.txt",
        "silver/.hidden/h/.hoodie/hoodie.properties",
        "half/.hoodie/other",
        "h/.hoodie/hoodie.properties",
    ):
        put(path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    def put(path: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")

    lake(put)
    (tmp_path / "link").symlink_to(tmp_path / "gold")
    return str(tmp_path)


def found(*globs: str, catalog=lambda url, options: ()) -> list[Found]:
    return list(find_tables(map(PlaceGlob.of, globs), lambda url: {}, catalog))


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["**"], ["gold/deep/er/i", "gold/h", "h", "silver/i"]),
        (["*"], ["h"]),
        (["*/*", "h", "**"], ["gold/deep/er/i", "gold/h", "h", "silver/i"]),
        (["gold/**/i", "g*/h"], ["gold/deep/er/i", "gold/h"]),
        (["gold/h"], ["gold/h"]),
    ],
)
def test_local_directories(root: str, globs: list[str], expected: list[str]) -> None:
    """Every table that a glob takes, once; neither hidden ones nor those behind links nor those inside of tables."""
    assert found(*(f"{root}/{glob}" for glob in globs)) == [Found(f"{root}/{name}") for name in expected]


def test_a_store() -> None:
    """Stores have no directories of their own; the tables have their URLs."""
    storage = MemoryStorage("memory")
    lake(lambda path: storage.replace(f"/finding/{path}", b"x"))
    try:
        assert [table.url for table in found("memory://finding/**")] == [
            f"memory:///finding/{name}" for name in ("gold/deep/er/i", "gold/h", "h", "silver/i")
        ]
    finally:
        storage.delete_tree("/finding")


def test_what_is_not_there_is_said(root: str) -> None:
    """A glob that takes nothing, inside of a table and of a place that is not there."""
    for glob in ("gold/h/*", "g*/h/inner", "none/**", "silver/h*"):
        (table,) = found(f"{root}/{glob}")
        assert str(table.error) == f"{root}/{glob} takes no Hudi or Iceberg table; check it"


def test_a_directory_that_cannot_be_listed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found with its error, and the others are found too."""
    listed = LocalStorage.list_dir

    def list_dir(self: LocalStorage, path: str):
        if path.endswith("gold"):
            raise StorageError("gold cannot be listed")
        return listed(self, path)

    monkeypatch.setattr(LocalStorage, "list_dir", list_dir)
    broken, *others = found(f"{root}/**")
    assert (broken.url, str(broken.error)) == (f"{root}/gold", "gold cannot be listed")
    assert others == [Found(f"{root}/{name}") for name in ("h", "silver/i")]


def test_catalogs() -> None:
    """Their tables by full names; one that gives no answer is found with its error."""

    def catalog(url: str, options: object) -> list[str]:
        if "down" in url:
            raise CatalogError("down is down")
        return [f"catalog://prod/{name}" for name in ("a.t", "b.c.u", "b.t")]

    assert found("catalog://prod/b.*", catalog=catalog) == [
        Found("catalog://prod/b.c.u"),
        Found("catalog://prod/b.t"),
    ]
    (none,) = found("catalog://prod/c.*", catalog=catalog)
    assert isinstance(none.error, LakemetaError)
    (down,) = found("catalog://down/*", catalog=catalog)
    assert str(down.error) == "down is down"
