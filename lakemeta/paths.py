"""Paths found in table metadata, compared with the table's own root. Pure text: nothing is looked up.

Names are taken as they are: ``p=x%3Dy``, blanks, ``#`` and ``?`` are ordinary characters, never decoded.

The authority of an HDFS URL names a cluster and is no part of the path: paths there begin with a slash, as on a disk.
What is compared as the scheme of such a URL is ``hdfs://`` with the cluster's name, ``hdfs://nn:8020`` or ``hdfs://``
alone, and the scheme of a storage may list several names of one cluster, ``hdfs://lake,nn1:8020``. The HTTP address in
``webhdfs://nn:9870`` is such a name too, written ``webhdfs@nn:9870``. On Azure the account is a part of the scheme
where the URL names it, ``abfs:account``; paths begin with the container.
"""

from __future__ import annotations

import re

from lakemeta.errors import CorruptMetadataError

CATALOG = "catalog://"  # of the URL of a table that a catalog keeps
AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
AZURE_DOMAIN = "core.windows.net"
HTTP_SCHEMES = frozenset({"webhdfs", "swebhdfs"})
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_ROOTED_SCHEMES = frozenset({"", "file", "memory"})
_AZURE = "abfs"
_HDFS = "hdfs://"
_HDFS_SCHEMES = HTTP_SCHEMES | {"hdfs"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def split_scheme(url: str) -> tuple[str, str]:
    """The scheme (``s3a`` and ``s3n`` become ``s3``; none is ``""``) and the path in the store's own form.

    ``s3a://bucket/t`` gives ``("s3", "bucket/t")``, ``file:/t`` and ``file:///t`` give ``("file", "/t")``,
    ``memory://t`` gives ``("memory", "/t")``, ``hdfs://nn:8020/t`` gives ``("hdfs://nn:8020", "/t")``,
    ``wasbs://c@account.blob.core.windows.net/t`` gives ``("abfs:account", "c/t")`` and ``abfs://c/t`` gives
    ``("abfs", "c/t")``. Raises ValueError for a URL that is none of these shapes.
    """
    match = _SCHEME.fullmatch(url)
    if match is None:
        return "", url
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return scheme, _file_path(rest)
    if scheme in _HDFS_SCHEMES:
        return _hdfs_path(scheme, rest)
    if not rest.startswith("//"):
        raise ValueError("no // after its scheme")
    path = rest[2:]
    if scheme == "memory":
        return scheme, "/" + path.removeprefix("/")
    if path.startswith("/"):
        raise ValueError("no bucket after its scheme")
    if scheme in AZURE_SCHEMES:
        return _azure(path)
    return _SAME_SCHEMES.get(scheme, scheme), path


def _azure(path: str) -> tuple[str, str]:
    authority, slash, key = path.partition("/")
    container, at, host = authority.partition("@")
    if not container or (at and not host) or (not at and "." in container):
        raise ValueError("its authority is not container@account.dfs.core.windows.net")
    return f"{_AZURE}:{azure_account(host)}" if at else _AZURE, container + slash + key


def azure_account(host: str) -> str:
    """The account of an Azure host: ``account`` on the public cloud, else with its domain, whichever the endpoint."""
    account, _, domain = host.lower().partition(".")
    domain = re.sub(r"^(dfs|blob)\.", "", domain)
    return account if domain in ("", AZURE_DOMAIN) else f"{account}.{domain}"


def is_hdfs(scheme: str) -> bool:
    """True for what :func:`split_scheme` or a storage gives as the scheme of a place in HDFS, and for ``hdfs``."""
    return scheme.partition(":")[0] in _HDFS_SCHEMES


def is_azure(scheme: str) -> bool:
    """True for the scheme of a place in Azure, with an account or without."""
    return scheme.partition(":")[0] == _AZURE


def is_rooted(scheme: str) -> bool:
    """True for a store whose paths begin with a slash, and where parts of a path that are empty mean nothing."""
    return scheme in _ROOTED_SCHEMES or is_hdfs(scheme)


def same_store(own: str, found: str) -> bool:
    """True if a location of scheme ``found`` lies in the store of scheme ``own``, which may list names of a cluster.

    Without a cluster's or an account's name it is the one that the writer's configuration had, where the metadata was
    found too.
    """
    if is_hdfs(own) and is_hdfs(found):
        names = {own.removeprefix(_HDFS), *own.removeprefix(_HDFS).split(",")}
        return "" in names or found.removeprefix(_HDFS) in {"", *names}
    if is_azure(own) and is_azure(found):
        return own == found or _AZURE in (own, found)
    return own == found or {own, found} <= _ROOTED_SCHEMES - {"memory"}


def base_of(scheme: str, root: str) -> str:
    """What :func:`inside` compares with, for a store of ``scheme``: a table's store path, with a cluster or account."""
    if is_azure(scheme):
        container, slash, path = root.partition("/")
        return f"{_AZURE}://{container}@{scheme.partition(':')[2]}{slash}{path}"
    return f"{scheme}{root}" if is_hdfs(scheme) else root


def alias_advice(own: str, found: str) -> str:
    """The end of a sentence that refuses a location in another cluster; empty for other stores."""
    name = found.removeprefix(_HDFS)
    if not (is_hdfs(own) and is_hdfs(found)) or "," in name or "@" in name:
        return ""
    return f"; if {name} is another name of the table's cluster, say --storage-option hdfs.authority={name}"


def is_text(name: str) -> bool:
    """False for a name whose bytes are not UTF-8: Python knows it by surrogates, and no file format can hold it."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def inside(root: str, path: str) -> str:
    """The store path of ``path``, a path or URL from metadata, which must lie strictly under ``root``.

    ``root`` is a store path or a URL, or what :func:`base_of` gives. All spellings of a store's scheme mean the same; a
    path without scheme and bucket (Hadoop's ``Path.getPathWithoutSchemeAndAuthority``, as in Hudi's plans) lies in the
    root's bucket.
    Raises CorruptMetadataError if the path lies elsewhere, or has ``.``, ``..``, empty parts or a NUL in it.
    """
    try:
        scheme, found = split_scheme(path)
        root_scheme, base = split_scheme(root.rstrip("/"))
    except ValueError as error:
        raise CorruptMetadataError(_message(root, path, str(error))) from None
    if not _within_store(root_scheme, base, scheme):
        raise CorruptMetadataError(_message(root, path, "it is in another store") + alias_advice(root_scheme, scheme))
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


def _hdfs_path(scheme: str, rest: str) -> tuple[str, str]:
    """As Hadoop's ``Path`` has it: ``hdfs:/t`` names no cluster, and several slashes are one."""
    if not rest.startswith("/"):
        raise ValueError("no path after its scheme")
    name, path = "", rest
    if rest.startswith("//"):
        name, slash, path = rest[2:].partition("/")
        path = slash + path
    if not path or (not name and scheme in HTTP_SCHEMES):
        raise ValueError("no path after the name of a cluster")
    return f"{_HDFS}{f'{scheme}@' if scheme in HTTP_SCHEMES else ''}{name}", re.sub("/{2,}", "/", path)


def _within_store(root_scheme: str, base: str, scheme: str) -> bool:
    if not scheme or same_store(root_scheme, scheme):
        return True
    if root_scheme or is_hdfs(scheme):
        return False
    rooted = not base or base.startswith("/")
    return rooted == (scheme in _ROOTED_SCHEMES)


def _message(root: str, path: str, why: str) -> str:
    return f"the path {path!r} does not lie inside the table {root}: {why}; nothing was done with it"
