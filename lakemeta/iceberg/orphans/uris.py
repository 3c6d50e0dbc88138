"""Locations as the engine compares them: scheme, authority and path, each by its own rule (FileURI, Hadoop's Path).

A file of a listing is the table's if the metadata names its path under the same scheme and authority. Paths are
compared letter by letter; on disks parts that are empty or dots mean nothing, on object stores they are names.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.paths import AZURE_SCHEMES, is_azure, is_rooted, same_store, split_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

MismatchMode = Literal["ERROR", "IGNORE", "DELETE"]
MODES: Final[tuple[MismatchMode, ...]] = ("ERROR", "IGNORE", "DELETE")
EQUAL_SCHEMES: Final[Mapping[str, str]] = {"s3a": "s3", "s3n": "s3"}
_PLAIN: Final = frozenset({"", ".", ".."})


@attrs.frozen(slots=True)
class Prefix:
    """What stands before a path in a location; None where there is nothing."""

    scheme: str | None = None
    authority: str | None = None


def split_location(location: str) -> tuple[Prefix, str]:
    """The prefix and the path of a location: the path begins with a slash, unless the location is a relative one."""
    folder, _, name = location.rpartition("/")
    if name in _PLAIN or not folder or folder.endswith(("/", ":")):
        return _split(location)
    prefix, path = _split_folder(folder)
    return prefix, f"{path.rstrip('/')}/{name}" if _is_rooted(prefix.scheme) else f"{path}/{name}"


@lru_cache(maxsize=65536)
def _split_folder(folder: str) -> tuple[Prefix, str]:
    return _split(folder)


def _split(location: str) -> tuple[Prefix, str]:
    scheme, authority, path = None, None, location
    before, colon, after = location.partition(":")
    if colon and "/" not in before:
        scheme, path = before, after
    if scheme is not None and path.startswith("//"):
        authority, slash, rest = path[2:].partition("/")
        path = slash + rest
    if scheme is not None and scheme.lower() in AZURE_SCHEMES:
        scheme, authority = _azure(location, authority or "")
    if scheme is not None and scheme.lower() == "memory":  # which names no machine or bucket
        authority, path = None, f"/{authority or ''}{path}"
    return Prefix(scheme, authority or None), _normal(path) if _is_rooted(scheme) else path


def _azure(location: str, authority: str) -> tuple[str, str]:
    """The store and the container of a location in Azure: the account is a part of the store, however it is spelled."""
    try:
        return split_scheme(location)[0], authority.partition("@")[0]
    except ValueError:
        return location.partition(":")[0], authority


def _is_rooted(scheme: str | None) -> bool:
    return is_rooted((scheme or "").lower())


def _normal(path: str) -> str:
    """A path without empty parts and dots."""
    plain = posixpath.normpath(path)
    return f"/{plain.lstrip('/')}" if plain.startswith("/") else plain


@attrs.frozen
class PrefixRules:
    """Which schemes and authorities mean the same, and what becomes of files where they do not.

    The maps give what a scheme or authority stands for, ``s3a`` and ``s3n`` for ``s3`` unless said otherwise.
    """

    mode: MismatchMode = "ERROR"
    equal_schemes: Mapping[str, str] = attrs.field(factory=dict)
    equal_authorities: Mapping[str, str] = attrs.field(factory=dict)

    def scheme_matches(self, valid: Prefix, actual: Prefix) -> bool:
        """True if a file's scheme is that in the metadata, where there is one."""
        if valid.scheme and actual.scheme and is_azure(valid.scheme) and is_azure(actual.scheme):
            return same_store(valid.scheme, actual.scheme)
        return _equal(self._schemes, valid.scheme, actual.scheme)

    def authority_matches(self, valid: Prefix, actual: Prefix) -> bool:
        """True if a file's authority is that in the metadata, where there is one."""
        return _equal(self.equal_authorities, valid.authority, actual.authority)

    def conflicts(self, valid: Prefix, actual: Prefix) -> list[tuple[str | None, str | None]]:
        """What differs, as pairs of metadata's and listing's: none if the locations are of one file."""
        found = []
        if not self.scheme_matches(valid, actual):
            found.append((_meaning(self._schemes, valid.scheme), _meaning(self._schemes, actual.scheme)))
        if not self.authority_matches(valid, actual):
            pair = (valid.authority, actual.authority)
            found.append((_meaning(self.equal_authorities, pair[0]), _meaning(self.equal_authorities, pair[1])))
        return found

    @property
    def _schemes(self) -> Mapping[str, str]:
        return {**EQUAL_SCHEMES, **self.equal_schemes}


def _equal(same: Mapping[str, str], valid: str | None, actual: str | None) -> bool:
    wanted = _meaning(same, valid)
    return not wanted or wanted.lower() == (_meaning(same, actual) or "").lower()


def _meaning(same: Mapping[str, str], name: str | None) -> str | None:
    return same.get(name or "", name) or None
