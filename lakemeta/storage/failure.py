from __future__ import annotations

from contextlib import contextmanager
from errno import ENAMETOOLONG
from typing import TYPE_CHECKING

from lakemeta.errors import LakemetaError, PathNotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        raise StorageError(f"cannot {action} {path}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What went wrong, in the store's own words."""
    text = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
