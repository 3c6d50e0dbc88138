"""Stores of table files behind one contract (I/O): local disks, S3, Google, Azure, and fsspec's others to read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.paths import is_hdfs, is_text, split_scheme
from lakemeta.storage.contract import Entry, Storage
from lakemeta.storage.local import LocalStorage
from lakemeta.typed_text import texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from lakemeta.storage.contract import Renewal
    from lakemeta.typed_text import Value

__all__ = ["Entry", "LocalStorage", "Storage", "name_of", "open_storage", "place_of_url"]

# Their URLs name a machine, which is no part of the path, so paths in metadata could not be compared.
_HOST_SCHEMES = frozenset({"ftp", "http", "https", "sftp", "smb", "ssh"})


def open_storage(
    url: str | PathLike[str], options: Mapping[str, Value] | None = None, renewal: Renewal | None = None
) -> tuple[Storage, str]:
    """The storage of a URL and the path in it: without scheme, absolute, without trailing slash or dot parts.

    A URL without scheme is a local path, taken from the working directory if it is relative; ``~`` is the home
    directory. ``options`` are
    fsspec's ``storage_options`` as text; pyiceberg's names (``s3.endpoint``, ``gcs.project-id``, ...) will do as well.
    ``renewal`` gives options that have taken the place of these, such as credentials that were vended anew.
    Nothing is looked up. Raises OptionError for a malformed URL or option, UnsupportedFeatureError for a
    scheme that cannot work.
    """
    options = texts(options)
    scheme, path = place_of_url(os.fspath(url))
    if scheme in {"", "file"}:
        _no_options("a local path", options)
        return LocalStorage(), path
    return _remote(scheme, options, renewal), path


def name_of(url: str | PathLike[str], storage: Storage, path: str) -> str:
    """What a table is called that was opened at a URL: that without its last slash; a local path in full."""
    text = os.fspath(url)
    return text.rstrip("/") if "://" in text else storage.url(path)


def place_of_url(url: str) -> tuple[str, str]:
    """The scheme of a table's URL, as :func:`lakemeta.paths.split_scheme` has it, and the path as of a storage.

    Raises OptionError for a malformed URL.
    """
    try:
        scheme, path = split_scheme(url)
    except ValueError as error:
        raise OptionError(f"{url!r} is not the URL of a table: {error}") from None
    if not path or "\0" in path:
        raise OptionError(f"{url!r} is not the path of a table")
    if not is_text(path):
        raise OptionError(f"the path {url!r} is not UTF-8, so no metadata or plan can name it; rename the directory")
    if scheme in {"", "file"}:
        if not scheme and path.split("/")[0] == "~":
            path = os.path.expanduser(path)  # noqa: PTH111 - text stays text
        return scheme, os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves .. in
    path = path.rstrip("/")
    if not {"", ".", ".."}.isdisjoint(path.removeprefix("/").split("/")):
        raise OptionError(f"{url!r} has an empty or a dot part; write the path without")
    return scheme, path


def _remote(scheme: str, options: dict[str, str], renewal: Renewal | None) -> Storage:
    if scheme in _HOST_SCHEMES:
        raise UnsupportedFeatureError(f"{scheme}:// is not supported; use s3:// or a mounted directory")
    if is_hdfs(scheme):
        from lakemeta.storage.hdfs_options import hdfs_storage

        return hdfs_storage(scheme, options)
    kind, _, account = scheme.partition(":")
    if kind == "s3":
        from lakemeta.storage.s3 import s3_storage

        return s3_storage(options, renewal)
    if kind == "gs":
        from lakemeta.storage.gcs import gcs_storage

        return gcs_storage(options, renewal)
    if kind == "abfs":
        from lakemeta.storage.azure import azure_storage

        return azure_storage(account, options, renewal)
    from lakemeta.storage.remote import MemoryStorage, ReadOnlyStorage

    if scheme == "memory":
        _no_options("memory://", options)
        return MemoryStorage("memory")
    return ReadOnlyStorage(scheme, options)


def _no_options(place: str, options: dict[str, str]) -> None:
    if options:
        raise OptionError(f"{place} takes no storage options, but {', '.join(options)} was given")
