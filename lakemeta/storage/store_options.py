"""Options of stores: names of their fsspec file systems and of pyiceberg, values as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from lakemeta.errors import OptionError
from lakemeta.typed_text import truth

if TYPE_CHECKING:
    from collections.abc import Mapping


Kind = Literal["text", "flag", "json", "flag or text", "json or text"]


@attrs.frozen
class StoreOptions:
    """The options of one store: ``own`` are the file system's names, ``iceberg`` pyiceberg's for some of them."""

    own: Mapping[str, Kind]
    iceberg: Mapping[str, str]


S3: Final = StoreOptions(
    {
        "key": "text",
        "secret": "text",
        "token": "text",
        "endpoint_url": "text",
        "profile": "text",
        "region_name": "text",
        "anon": "flag",
        "use_ssl": "flag",
        "requester_pays": "flag",
        "path_style": "flag",
        "client_kwargs": "json",
        "config_kwargs": "json",
        "s3_additional_kwargs": "json",
    },
    {
        "s3.endpoint": "endpoint_url",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.session-token": "token",
        "s3.region": "region_name",
        "s3.path-style-access": "path_style",
        "s3.anonymous": "anon",
        "s3.profile-name": "profile",
    },
)
GCS: Final = StoreOptions(
    {
        "project": "text",
        "access": "text",
        "token": "json or text",
        "endpoint_url": "text",
        "oauth2_token": "text",
        "requester_pays": "flag or text",
        "session_kwargs": "json",
    },
    {
        "gcs.project-id": "project",
        "gcs.access": "access",
        "gcs.oauth2.token": "oauth2_token",
        "gcs.service.host": "endpoint_url",
        "gcs.endpoint": "endpoint_url",
        "gcs.requester-pays": "requester_pays",
        "gcs.session-kwargs": "session_kwargs",
    },
)
AZURE: Final = StoreOptions(
    {
        "account_name": "text",
        "account_key": "text",
        "connection_string": "text",
        "sas_token": "text",
        "tenant_id": "text",
        "client_id": "text",
        "client_secret": "text",
        "account_host": "text",
        "anon": "flag",
    },
    {
        "adls.account-name": "account_name",
        "adls.account-key": "account_key",
        "adls.connection-string": "connection_string",
        "adls.sas-token": "sas_token",
        "adls.tenant-id": "tenant_id",
        "adls.client-id": "client_id",
        "adls.client-secret": "client_secret",
        "adls.account-host": "account_host",
        "adls.anon": "anon",
    },
)


def arguments(store: StoreOptions, options: Mapping[str, str]) -> dict[str, Any]:
    """The options by the file system's names. Raises OptionError for an unknown, doubled or malformed one."""
    found: dict[str, Any] = {}
    for name, text in options.items():
        own = store.iceberg.get(name, name)
        if own not in store.own:
            raise OptionError.unknown(name, [*store.iceberg, *store.own])
        value = _value(name, store.own[own], text)
        if found.setdefault(own, value) != value:
            raise OptionError(f"the storage option {name} is given under two names, with different values")
    return found


def _value(name: str, kind: Kind, text: str) -> Any:
    if kind == "flag" or (kind == "flag or text" and text.lower() in ("true", "false")):
        return truth(name, text)
    if kind == "json" or (kind == "json or text" and text.lstrip().startswith("{")):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise OptionError(f"the storage option {name} is not a JSON object")
        return value
    return text
