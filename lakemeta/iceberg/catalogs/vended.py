"""The storage options that a catalog gives with a table: its own configuration and vended credentials, as pyiceberg's.

Rules of this module:

1. Names are pyiceberg's: ``s3.*``, and ``client.*`` where the former is not given.
2. Requests go to ``endpoint/bucket`` if an endpoint is given, unless ``s3.force-virtual-addressing`` is set; that is
   how pyiceberg's own file systems do it.
3. A catalog that signs every request itself (``s3.signer``) hands no credentials out and is refused: requests of
   workers cannot go through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
