from __future__ import annotations

from contextlib import contextmanager
from errno import ENAMETOOLONG
from typing import TYPE_CHECKING, Final

from lakemeta.errors import LakemetaError, PathNotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


_LONGEST: Final = 500  # characters of a store's words
_NO_CREDENTIALS: Final = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "RefreshError", "NoAuthTokenError"}
    | {"ClientAuthenticationError", "CredentialUnavailableError", "ProfileNotFound"}
)
_REFUSED: Final = frozenset({"PermissionError"})
_NO_CONNECTION: Final = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ClientConnectorDNSError"}
    | {"ConnectionRefusedError", "ServiceRequestError", "NameResolutionError", "ConnectionError"}
)
_CREDENTIALS: Final = {
    "s3": "--storage-option s3.access-key-id=... and s3.secret-access-key=..., s3.profile-name=..., or AWS's own",
    "gs": "--storage-option gcs.oauth2.token=..., or gcloud auth application-default login",
    "abfss": "--storage-option adls.account-key=..., adls.sas-token=... or adls.connection-string=..., or az login",
}


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn whatever a store raises into StorageError (PathNotFoundError if the path is missing)."""
    try:
        yield
    except LakemetaError:
        raise
    except FileNotFoundError as error:
        raise PathNotFoundError(f"cannot {action} {path}: there is no such file or directory") from error
    except Exception as error:
        if getattr(error, "errno", None) == ENAMETOOLONG and action in ("list", "read", "look up"):
            raise PathNotFoundError(f"cannot {action} {path}: no file has a name that long") from error
        raise StorageError(f"cannot {action} {path}: {reason(error)}{_advice(path, error)}") from error


def failure_of(stream: object) -> StorageError | None:
    """What the store of a stream raised: libraries that read streams make other errors of it, or only text."""
    found = getattr(getattr(stream, "raw", stream), "failure", None)
    return found if isinstance(found, StorageError) else None


def reason(error: BaseException) -> str:
    """What went wrong, in the store's own words: their first line, of at most 500 characters."""
    text = (getattr(error, "strerror", None) or str(error)).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:_LONGEST]}" if text else type(error).__name__


def _advice(url: str, error: BaseException) -> str:
    """What to do about an error on the way to a remote store, as the end of a sentence."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return ""
    name = type(error).__name__
    if name in _NO_CREDENTIALS:
        return f"; give credentials: {_CREDENTIALS.get(scheme, 'see docs/storage.md')}"
    if name in _REFUSED or getattr(error, "status", None) in (401, 403):
        return "; check the credentials, and what they are allowed to do there"
    return "; check the address and that the store is running" if name in _NO_CONNECTION else ""
