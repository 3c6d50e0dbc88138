"""Options of an S3 store: names of s3fs and of pyiceberg, values as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakemeta.errors import OptionError
from lakemeta.typed_text import truth

if TYPE_CHECKING:
    from collections.abc import Mapping

# pyiceberg's names of the options that s3fs has under another name
_ICEBERG_NAMES = {
    "s3.endpoint": "endpoint_url",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "s3.region": "region_name",
    "s3.path-style-access": "path_style",
    "s3.anonymous": "anon",
    "s3.profile-name": "profile",
}
_TEXT = frozenset({"key", "secret", "token", "endpoint_url", "profile"})
_FLAGS = frozenset({"anon", "use_ssl", "requester_pays"})
_JSON = frozenset({"client_kwargs", "config_kwargs", "s3_additional_kwargs"})
_OWN = frozenset({"region_name", "path_style"})


def s3fs_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of s3fs for our options. Raises OptionError for an unknown, doubled or malformed one."""
    arguments: dict[str, Any] = {}
    for name, text in options.items():
        own = _ICEBERG_NAMES.get(name, name)
        if own not in _TEXT | _FLAGS | _JSON | _OWN:
            raise OptionError.unknown(name, [*_ICEBERG_NAMES, *_TEXT, *_FLAGS, *_JSON, *_OWN])
        value = _value(name, own, text)
        if arguments.setdefault(own, value) != value:
            raise OptionError(f"the storage option {name} is given under two names, with different values")
    region, path_style = arguments.pop("region_name", None), arguments.pop("path_style", None)
    if region is not None:
        arguments["client_kwargs"] = {"region_name": region, **arguments.get("client_kwargs", {})}
    if path_style is not None:
        addressing = {"s3": {"addressing_style": "path" if path_style else "virtual"}}
        arguments["config_kwargs"] = {**addressing, **arguments.get("config_kwargs", {})}
    return arguments


def _value(name: str, own: str, text: str) -> Any:
    if own in _JSON:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise OptionError(f"the storage option {name} is not a JSON object")
        return value
    if own in _FLAGS or own == "path_style":
        return truth(name, text)
    return text
