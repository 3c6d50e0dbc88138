"""Paths found in table metadata, compared with the table's own root. Pure text: nothing is looked up.

Names are taken as they are: ``p=x%3Dy``, blanks, ``#`` and ``?`` are ordinary characters, never decoded.
"""

from __future__ import annotations

import re

from lakemeta.errors import CorruptMetadataError

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
ROOTED_SCHEMES = frozenset({"", "file", "memory"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def split_scheme(url: str) -> tuple[str, str]:
    """The scheme (``s3a`` and ``s3n`` become ``s3``; none is ``""``) and the path in the store's own form.

    ``s3a://bucket/t`` gives ``("s3", "bucket/t")``, ``file:/t`` and ``file:///t`` give ``("file", "/t")``,
    ``memory://t`` gives ``("memory", "/t")``. Raises ValueError for a URL that is none of these shapes.
    """
    match = _SCHEME.fullmatch(url)
    if match is None:
        return "", url
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return scheme, _file_path(rest)
    if not rest.startswith("//"):
        raise ValueError("no // after its scheme")
    path = rest[2:]
    if scheme == "memory":
        return scheme, "/" + path.removeprefix("/")
    if path.startswith("/"):
        raise ValueError("no bucket after its scheme")
    return "s3" if scheme in S3_SCHEMES else scheme, path


def is_text(name: str) -> bool:
    """False for a name whose bytes are not UTF-8: Python knows it by surrogates, and no file format can hold it."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def inside(root: str, path: str) -> str:
    """The store path of ``path``, a path or URL from metadata, which must lie strictly under ``root``.

    ``root`` is a store path or a URL. The schemes s3, s3a and s3n mean the same; a path without scheme and
    bucket (Hadoop's ``Path.getPathWithoutSchemeAndAuthority``, as in Hudi's plans) lies in the root's bucket.
    Raises CorruptMetadataError if the path lies elsewhere, or has ``.``, ``..``, empty parts or a NUL in it.
    """
    try:
        scheme, found = split_scheme(path)
        root_scheme, base = split_scheme(root.rstrip("/"))
    except ValueError as error:
        raise CorruptMetadataError(_message(root, path, str(error))) from None
    if not _same_store(root_scheme, base, scheme):
        raise CorruptMetadataError(_message(root, path, "it is in another store"))
    if scheme == "" and found.startswith("/") and not base.startswith("/") and base:
        found = base.partition("/")[0] + found
    if not found.startswith(base + "/"):
        raise CorruptMetadataError(_message(root, path, "it lies elsewhere"))
    if "\0" in found or not {"", ".", ".."}.isdisjoint(found[len(base) + 1 :].split("/")):
        raise CorruptMetadataError(_message(root, path, "it has an empty part, a dot part or a NUL"))
    return found


def relative(root: str, path: str) -> str:
    """The part of ``path`` below ``root``, under the rules of :func:`inside`."""
    found = inside(root, path)
    base = split_scheme(root.rstrip("/"))[1]
    return found[len(base) + 1 :]


def _file_path(rest: str) -> str:
    if rest.startswith("//"):
        rest = rest[2:].removeprefix("localhost")
    if not rest.startswith("/"):
        raise ValueError("not an absolute path on this machine")
    return rest


def _same_store(root_scheme: str, base: str, scheme: str) -> bool:
    if not scheme or scheme == root_scheme:
        return True
    if root_scheme:
        return {root_scheme, scheme} <= ROOTED_SCHEMES - {"memory"}
    rooted = not base or base.startswith("/")
    return rooted == (scheme in ROOTED_SCHEMES)


def _message(root: str, path: str, why: str) -> str:
    return f"the path {path!r} does not lie inside the table {root}: {why}; nothing was done with it"
