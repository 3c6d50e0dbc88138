"""Finding the tables that globs take (I/O: lists directories and asks catalogs).

Rules of this module:

1. A directory is a Hudi table if it has ``.hoodie/hoodie.properties``, an Iceberg table if it has a
   ``metadata/*.metadata.json``. Nothing is looked for inside of a table.
2. Hidden directories, whose names begin with a dot, and links to directories are not gone into.
3. A directory that cannot be listed, a catalog that cannot be asked and a glob that takes nothing are found too, with
   the error: a run must not look complete that is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import LakemetaError, PathNotFoundError, TableNotFoundError
from lakemeta.storage import open_storage
from lakemeta.storage.formats import METADATA_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lakemeta.fleet.place_globs import PlaceGlob
    from lakemeta.storage import Storage

    Options = Callable[[str], Mapping[str, str]]
    Catalog = Callable[[str, Mapping[str, str]], Iterable[str]]

_HUDI: Final = (".hoodie", ("hoodie.properties",))
_ICEBERG: Final = ("metadata", METADATA_FILES)


@attrs.frozen
class Found:
    """The URL of a table; with an error, of a place or glob at which tables could not be found."""

    url: str
    error: LakemetaError | None = None


def find_tables(globs: Iterable[PlaceGlob], options_of: Options, catalog_tables: Catalog) -> tuple[Found, ...]:
    """Every table once, sorted by URL.

    ``options_of`` gives the storage options of a URL, ``catalog_tables`` the URLs of the tables below
    ``catalog://NAME[/namespace]``.
    """
    found: dict[str, Found] = {}
    for glob in globs:
        before = len(found)
        new = list(_in_catalog(glob, options_of, catalog_tables) if glob.is_catalog else _in_store(glob, options_of))
        for table in new:
            found.setdefault(table.url, table)
        if not new and len(found) == before:
            error = TableNotFoundError(f"{glob.text} takes no Hudi or Iceberg table; check it")
            found[glob.text] = Found(glob.text, error)
    return tuple(sorted(found.values(), key=lambda table: table.url))


def _in_catalog(glob: PlaceGlob, options_of: Options, catalog_tables: Catalog) -> Iterator[Found]:
    try:
        for url in catalog_tables(glob.text, options_of(glob.fixed)):
            if glob.matches(url):
                yield Found(url)
    except LakemetaError as error:
        yield Found(glob.text, error)


def _in_store(glob: PlaceGlob, options_of: Options) -> Iterator[Found]:
    try:
        storage, root = open_storage(glob.fixed, options_of(glob.fixed))
    except LakemetaError as error:
        yield Found(glob.text, error)
        return
    waiting = [(root, glob.start())]
    while waiting:
        folder, states = waiting.pop()
        try:
            below = [entry for entry in storage.list_dir(folder) if entry.is_dir and not entry.is_link]
            is_table = _is_table(storage, folder, {entry.name for entry in below})
        except PathNotFoundError:
            continue  # it went meanwhile, or the glob begins at what is not there
        except LakemetaError as error:
            yield Found(storage.url(folder), error)
            continue
        if is_table:
            if glob.accepts(states):
                yield Found(storage.url(folder))
            continue
        steps = ((entry, glob.step(states, entry.name)) for entry in below if not entry.name.startswith("."))
        waiting += [(entry.path, further) for entry, further in steps if further]


def _is_table(storage: Storage, folder: str, below: set[str]) -> bool:
    """True for a table of either format (rule 1); raises StorageError if that cannot be found out."""
    for name, ends in (_HUDI, _ICEBERG):
        if name in below and any(entry.name.endswith(ends) for entry in storage.list_dir(f"{folder}/{name}")):
            return True
    return False
