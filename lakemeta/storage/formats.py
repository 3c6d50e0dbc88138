"""Which table format lies at a place, by what its directories have in them (I/O: asked once no table was found)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import LakemetaError
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.storage import Storage
    from lakemeta.typed_text import Value

METADATA_FILES: Final = (".metadata.json", ".metadata.json.gz")
HUDI, ICEBERG, DELTA = "Hudi", "Iceberg", "Delta Lake"
_ABOVE: Final = 4  # directories above a path in which its table is looked for
_INSTEAD: Final = {
    HUDI: "use lakemeta clean, lakemeta rollback or lakemeta maintain",
    ICEBERG: "use lakemeta rewrite-data-files, expire-snapshots or another of its services, or lakemeta maintain",
    DELTA: "lakemeta maintains Hudi and Iceberg tables; use Delta's own OPTIMIZE and VACUUM",
}


def format_at(storage: Storage, root: str) -> str | None:
    """The format of the table in a directory, as far as it shows; None if there is none, or it cannot be looked at."""
    if "hoodie.properties" in _names(storage, f"{root}/.hoodie"):
        return HUDI
    if any(name.endswith(METADATA_FILES) for name in _names(storage, f"{root}/metadata")):
        return ICEBERG
    return DELTA if _names(storage, f"{root}/_delta_log") else None


def other_format(storage: Storage, root: str, wanted: str) -> str | None:
    """A sentence that names the format of what lies at a place if it is not the one that is ``wanted``."""
    if root.endswith(METADATA_FILES):
        found: str | None = ICEBERG
    else:
        found = format_at(storage, root)
    if found in (None, wanted):
        return None
    assert found is not None
    return f"{storage.url(root)} is {article(found)} table, not {article(wanted)} one; {_INSTEAD[found]}"


def of_catalog(wanted: str) -> str:
    """The end of a sentence on a ``catalog://`` URL where another format was ``wanted``."""
    return f"{article(ICEBERG)} table, not {article(wanted)} one; {_INSTEAD[ICEBERG]}"


def nothing_here(url: str, options: Mapping[str, Value] | None) -> str:
    """The sentence for a place at which there is neither a Hudi nor an Iceberg table: what is there, or above it."""
    storage, root = open_storage(url, options)
    if format_at(storage, root) == DELTA:
        return f"{storage.url(root)} is {article(DELTA)} table; {_INSTEAD[DELTA]}"
    above = root
    for _ in range(_ABOVE):
        above = above.rpartition("/")[0]
        found = format_at(storage, above) if above else None
        if found is not None:
            return f"{storage.url(root)} lies in {article(found)} table; give the table: {storage.url(above)}"
    return f"no Hudi or Iceberg table lies at {storage.url(root)}; check the path"


def article(name: str) -> str:
    """``an Iceberg``, ``a Hudi``."""
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _names(storage: Storage, folder: str) -> set[str]:
    try:
        return {entry.name for entry in storage.list_dir(folder)}
    except LakemetaError:
        return set()
