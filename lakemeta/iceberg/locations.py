"""Locations in table metadata and what they are called in the table's store."""

from __future__ import annotations

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.paths import ROOTED_SCHEMES, split_scheme


def store_path(scheme: str, location: str) -> str:
    """The store's own path of a location from metadata, for a store of ``scheme``.

    A location without scheme lies in the store it was found in. Raises UnsupportedFeatureError if it lies
    in another kind of store (tables spread over stores are not handled), CorruptMetadataError if it is no
    location at all.
    """
    try:
        found, path = split_scheme(location)
    except ValueError as error:
        raise CorruptMetadataError(f"the location {location!r} in the table's metadata is malformed: {error}") from None
    if found == scheme or (not found and scheme in ROOTED_SCHEMES):
        return path
    raise UnsupportedFeatureError(f"{location} does not lie in the table's own store ({scheme}); nothing was done")


def same_location(one: str, other: str) -> bool:
    """True if two locations name one place, whatever their spelling (``file:/t``, ``file:///t/``, ``/t``.

    S3a, s3).
    """
    try:
        (scheme, path), (other_scheme, other_path) = split_scheme(one), split_scheme(other)
    except ValueError:
        return one == other
    same_store = scheme == other_scheme or ("" in (scheme, other_scheme) and {scheme, other_scheme} <= ROOTED_SCHEMES)
    return same_store and path.rstrip("/") == other_path.rstrip("/")
