"""The tables of a catalog beside one of them, and where they write (I/O: asks the catalog of each).

Rules of this module:

1. Namespaces are listed from the top, each with what lies in it. A namespace or table that is gone when its turn comes
   is none. What cannot be listed raises: a part of the tables is no answer.
2. A table that cannot be loaded is given with the reason, for the caller to judge.
3. A REST catalog is asked for several tables at a time; the clients of other catalogs serve one caller at a time.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CatalogError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.catalog_errors import reason
from lakemeta.iceberg.catalogs.doors import OWN_LOCATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Identifier = tuple[str, ...]

_AT_ONCE: Final = 8  # below the connections that the HTTP client of a REST catalog keeps


@attrs.frozen
class OtherTable:
    """A table by its full name: its uuid, its metadata file, and where it writes, as it spells that.

    ``location`` is the table's own, ``writes`` are the directories of its files. Where the table cannot be loaded
    there is a reason, ``unknown``, and nothing else.
    """

    name: str
    uuid: str | None = None
    metadata_location: str = ""
    location: str = ""
    writes: tuple[str, ...] = ()
    unknown: str | None = None


def other_tables(catalog: Any, own: str, passed_over: Sequence[str], *, remote: bool) -> Iterator[OtherTable]:
    """All tables of a pyiceberg catalog but ``own``, and those whose full names match one of some patterns.

    ``remote`` says that it is a REST catalog. Raises CatalogError if its namespaces or tables cannot be listed.
    """
    names = (name for name in table_names(catalog) if not _is_passed_over(".".join(name), own, passed_over))
    executor = LocalExecutor(_AT_ONCE if remote else 1)
    found = executor.map_batches(partial(_load, catalog), names, batch_size=1)
    return (table for table in found if table is not None)


def table_names(catalog: Any, top: Identifier = ()) -> Iterator[Identifier]:
    """The full names of the tables of a pyiceberg catalog, in a namespace and those below it.

    Raises CatalogError if they cannot be listed.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError

    waiting: list[Identifier] = [top]
    seen: set[Identifier] = set()
    while waiting:
        namespace = waiting.pop()
        try:
            below = {tuple(name) for name in catalog.list_namespaces(namespace)} - seen
            seen |= below
            waiting += sorted(below, reverse=True)
            if namespace:
                yield from sorted(tuple(name) for name in catalog.list_tables(namespace))
        except NoSuchNamespaceError:
            continue
        except Exception as error:
            what = f"the namespace {'.'.join(namespace)}" if namespace else "its namespaces"
            raise CatalogError(
                f"the catalog {catalog.name} cannot say which tables it has ({what}: {reason(error)})"
            ) from error


def _is_passed_over(name: str, own: str, patterns: Sequence[str]) -> bool:
    return name == own or any(fnmatchcase(name, pattern) for pattern in patterns)


def _load(catalog: Any, names: Sequence[Identifier]) -> Iterable[OtherTable | None]:
    from pyiceberg.exceptions import NoSuchTableError

    for identifier in names:
        name = ".".join(identifier)
        try:
            table = catalog.load_table(identifier)
            yield _of(name, table.metadata, table.metadata_location)
        except NoSuchTableError:  # dropped meanwhile, or of another format
            yield None
        except Exception as error:  # noqa: BLE001 - whatever a catalog's client raises is the table's own reason
            yield OtherTable(name, unknown=reason(error))


def _of(name: str, metadata: Any, metadata_location: str | None) -> OtherTable:
    location: str = metadata.location.rstrip("/")
    declared = {key: value.rstrip("/") for key in OWN_LOCATIONS if (value := metadata.properties.get(key))}
    usual = {f"{location}/data", declared.get("write.metadata.path", f"{location}/metadata")}
    where = (metadata_location or "").rpartition("/")[0]
    writes = sorted({*usual, *declared.values(), *([where] if where else [])})
    return OtherTable(name, str(metadata.table_uuid), metadata_location or "", location, tuple(writes))
