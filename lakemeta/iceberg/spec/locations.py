"""Locations in table metadata and what they are called in the table's store."""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.paths import alias_advice, is_hdfs, is_rooted, same_store, split_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping


def store_path(scheme: str, location: str) -> str:
    """The store's own path of a location from metadata, for a store of ``scheme``.

    A location without scheme lies in the store it was found in. Raises UnsupportedFeatureError if it lies
    in another kind of store (tables spread over stores are not handled), CorruptMetadataError if it is no
    full location at all, or has ``.`` or ``..`` as parts of a name in an object store: some of its clients ask for
    another object then.
    """
    try:
        found, path = split_scheme(f"hdfs:{location}" if is_hdfs(scheme) and location.startswith("/") else location)
    except ValueError as error:
        raise CorruptMetadataError(f"the location {location!r} in the table's metadata is malformed: {error}") from None
    if same_store(scheme, found) or (not found and is_rooted(scheme)):
        if is_rooted(scheme) and not path.startswith("/"):
            raise CorruptMetadataError(f"the location {location!r} in the table's metadata is no full one")
        if (is_hdfs(scheme) or not is_rooted(scheme)) and not {".", ".."}.isdisjoint(path.split("/")):
            raise CorruptMetadataError(f"the location {location!r} in the table's metadata has . or .. as a part")
        return path
    raise UnsupportedFeatureError(
        f"{location} does not lie in the table's own store ({scheme}); nothing was done{alias_advice(scheme, found)}"
    )


def same_location(one: str, other: str) -> bool:
    """True if two locations name one place, whatever their spelling, as ``file:/t``, ``file:///t/`` and ``/t`` do."""
    try:
        (scheme, path), (other_scheme, other_path) = split_scheme(one), split_scheme(other)
    except ValueError:
        return one == other
    together = same_store(scheme, other_scheme) or same_store(other_scheme, scheme)
    together = together or ("" in (scheme, other_scheme) and is_rooted(scheme) and is_rooted(other_scheme))
    return together and path.rstrip("/") == other_path.rstrip("/")


def within(root: str, location: str) -> str:
    """What a plan calls a file of the table at ``root``: the part below it, or all of it where it lies elsewhere.

    Also all of it where the part could be taken for a full location, as that of ``root//data/a``; ``whole`` gives the
    location back as it was, letter by letter.
    """
    base = root.rstrip("/") + "/"
    part = location[len(base) :]
    return part if location.startswith(base) and not _is_full(part) else location


def whole(root: str, path: str) -> str:
    """The location of a file that a plan of the table at ``root`` names."""
    return path if _is_full(path) else f"{root.rstrip('/')}/{path}"


def _is_full(path: str) -> bool:
    return path.startswith(("/", "file:", "hdfs:")) or "://" in path


def metadata_root(location: str, properties: Mapping[str, str]) -> str:
    """The directory where a catalog's table has its metadata: ``write.metadata.path``, or below its location."""
    return properties.get("write.metadata.path", f"{location.rstrip('/')}/metadata").rstrip("/")


def file_key(location: str) -> str:
    """The same for all spellings of a file's location: of schemes, and on disks of parts that are empty or dots."""
    folder, _, name = location.rpartition("/")
    return f"{_folder_key(folder)}/{name}" if name not in ("", ".", "..") else _folder_key(location)


@lru_cache(maxsize=65536)
def _folder_key(location: str) -> str:
    try:
        scheme, path = split_scheme(location)
    except ValueError:
        return location
    if is_rooted(scheme):  # a table in HDFS is read from one cluster, whatever name a location gives it
        return "/" + posixpath.normpath(path).lstrip("/")  # normpath keeps two slashes at the beginning
    return f"{scheme.partition(':')[0]}://{path}"  # of an account that is not named too
