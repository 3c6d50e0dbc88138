"""What the errors of pyiceberg's catalogs mean.

Rules of this module, for a commit:

1. A conflict, after which another attempt may succeed: the catalog says so (409 of a REST catalog), or answers that it
   has no time (429), or pyiceberg, where it is itself the catalog's server, finds that the updates do not fit any more.
2. A refusal, after which none will: any other answer of the 400s. The catalog has read the request, and said no.
3. Everything else leaves open whether the commit has happened: 5xx answers (Iceberg's CommitErrorHandler names 500, 502
   and 504; a 503 of a proxy says no more), time-outs (408 and 499 are a proxy's words for one), broken connections, and
   answers that cannot be read: these are ``ValueError`` too, raised after the catalog has committed.
"""

from __future__ import annotations

from typing import Final

from lakemeta.errors import (
    CatalogError,
    CommitConflictError,
    CommitStateUnknownError,
    LakemetaError,
    TableNotFoundError,
)

_OF_PROXIES: Final = frozenset({408, 499})
_CONFLICT, _TOO_MANY_REQUESTS = 409, 429
_LONGEST: Final = 300  # characters of an error of others; a proxy's answer may be a whole page


def commit_error(error: Exception, table: str, *, remote: bool) -> LakemetaError:
    """The error that an exception of ``Catalog.commit_table`` means; ``remote`` if another process is the server."""
    from pyiceberg.exceptions import CommitFailedException

    code, said = _status(error), reason(error)
    outdated = not remote and type(error) is ValueError
    if isinstance(error, CommitFailedException) or code in (_CONFLICT, _TOO_MANY_REQUESTS) or outdated:
        return CommitConflictError(f"the catalog did not take the commit to {table}: {said}")
    if code is not None and 400 <= code < 500 and code not in _OF_PROXIES:
        return CatalogError(f"the catalog refused the commit to {table}, and nothing was changed: {said}")
    return CommitStateUnknownError(
        f"the catalog did not say whether it took the commit to {table} ({said}); look at the table before "
        f"you try again"
    )


def load_error(error: Exception, catalog: str, table: str) -> LakemetaError:
    """The error that an exception of ``Catalog.load_table`` means."""
    from pyiceberg.exceptions import NoSuchTableError

    if isinstance(error, NoSuchTableError):
        return TableNotFoundError(f"the catalog {catalog} has no table {table}; check the name")
    return CatalogError(f"the catalog {catalog} cannot say where {table} is: {reason(error)}")


def reason(error: Exception) -> str:
    """What an error of pyiceberg, its HTTP client or its database says, in one line without instructions for use."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import Timeout

    if isinstance(error, Timeout):
        return "it did not answer in time"
    if isinstance(error, NoConnection):
        url = getattr(error.request, "url", None)
        return f"no connection to {url}; is it running, and is that its address?" if url else "no connection to it"
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    return (text or type(error).__name__)[:_LONGEST]


def _status(error: Exception) -> int | None:
    """The HTTP status of the answer that pyiceberg made an exception of."""
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
