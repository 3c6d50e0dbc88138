"""The storage options that a catalog gives with a table: its configuration and vended credentials (I/O).

Rules of this module:

1. Names are pyiceberg's: ``s3.*``, and ``client.*`` where the former is not given.
2. Requests go to ``endpoint/bucket`` if an endpoint is given, unless ``s3.force-virtual-addressing`` is set; that is
   how pyiceberg's own file systems do it.
3. Credentials that end, as ``s3.session-token-expires-at-ms`` says, are asked for anew five minutes before (as
   Iceberg's VendedCredentialsProvider does), whenever a file is reached in this process. What runs on a worker has
   those of the moment that it was sent.
4. A catalog that signs every request itself (``s3.signer``) hands no credentials out and is refused: requests of
   workers cannot go through it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from lakemeta.environment import utc_now
from lakemeta.errors import LakemetaError, UnsupportedFeatureError
from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

_NAMES: Final = {
    "s3.endpoint": (),
    "s3.access-key-id": ("client.access-key-id",),
    "s3.secret-access-key": ("client.secret-access-key",),
    "s3.session-token": ("client.session-token",),
    "s3.region": ("client.region",),
    "s3.profile-name": ("client.profile-name",),
    "s3.anonymous": (),
    "s3.path-style-access": (),
}
_SIGNERS: Final = ("s3.signer", "s3.remote-signing-enabled")
_TRUE: Final = "true"
_EXPIRES: Final = "s3.session-token-expires-at-ms"
_EARLY_MS: Final = 5 * 60_000
_AGAIN_MS: Final = 30_000  # between two requests for credentials, whatever the catalog answers


class Vended:
    """The storage options of one table, renewed before they end; ``load`` loads the pyiceberg ``Table``."""

    def __init__(self, load: Callable[[], Any], table: Any) -> None:
        self._load = load
        self._lock = threading.Lock()
        self.take(table)

    def take(self, table: Any) -> None:
        """Take over what the catalog gave with a table that was just loaded."""
        properties = table.io.properties
        self.options = storage_options(properties)
        expires = str(properties.get(_EXPIRES, ""))
        soonest = epoch_ms(utc_now()) + _AGAIN_MS
        self._due_ms = max(int(expires) - _EARLY_MS, soonest) if expires.isdecimal() else None

    def renewed(self) -> Mapping[str, str]:
        """The options that are good now; those that are left if the catalog gives no others yet."""
        with self._lock:
            now_ms = epoch_ms(utc_now())
            if self._due_ms is not None and now_ms >= self._due_ms:
                self._due_ms = now_ms + _AGAIN_MS
                try:
                    self.take(self._load())
                except LakemetaError as error:
                    _log.warning("storage credentials that end soon could not be renewed: %s", error)
            return self.options


def storage_options(properties: Mapping[str, Any]) -> dict[str, str]:
    """The options of an S3 store in the properties of a pyiceberg ``FileIO``.

    Raises UnsupportedFeatureError where the catalog signs requests instead of giving credentials.
    """
    given = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in properties.items() if v not in (None, "")}
    options = {}
    for name, others in _NAMES.items():
        found = next((given[key] for key in (name, *others) if key in given), None)
        if found is not None:
            options[name] = found
    signs = any(given.get(key, "false").lower() != "false" for key in _SIGNERS)
    if signs and not {"s3.access-key-id", "s3.profile-name"} & options.keys():
        raise UnsupportedFeatureError(
            "the catalog signs requests to S3 instead of giving credentials, which lakemeta cannot use; have it vend "
            "credentials, or set s3.access-key-id and s3.secret-access-key"
        )
    if "s3.endpoint" in options and given.get("s3.force-virtual-addressing", "").lower() != _TRUE:
        options.setdefault("s3.path-style-access", _TRUE)
    return options
