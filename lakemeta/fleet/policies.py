"""Policies of Apache Polaris as options of services.

A file has one policy, a list of them, or an answer of Polaris' ``applicable-policies`` (``{"policies": [...]}``). A
policy has a ``name``, a ``type`` (``policy-type`` in answers) and a ``content``, as an object or as its JSON text.
Fields of contents are those of Polaris' schemas of 2025-02-03 (``site/content/in-dev/unreleased/policy.md`` and
``polaris-core``'s ``schemas/policies/system``): ``enable``, ``config``, and of some types their own. What ``config``
may hold is not fixed there: names are taken as those of the service's options, with ``-`` or ``_``, and those of
Polaris' examples as what they mean.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import OptionError
from lakemeta.fleet.fields import Fields, days_ago, flat, option_text
from lakemeta.fleet.part import Part, merge

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_VERSION: Final = "2025-02-03"
_ENVELOPE: Final = (
    *("name", "type", "policy-type", "content", "description", "version"),
    *("inheritable", "inherited", "namespace", "appliedAt"),
)
_DAYS: Final = ("max_snapshot_age_days", "max_orphan_file_age_in_days")
_PLACES: Final = ("location", "locations")
_SERVICES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "system.data-compaction": ("rewrite-data-files", ("target_file_size_bytes",)),
    "system.snapshot-expiry": ("expire-snapshots", ()),
    "system.orphan-file-removal": ("remove-orphan-files", ("max_orphan_file_age_in_days", "older_than", *_PLACES)),
    "system.metadata-compaction": ("rewrite-manifests", ()),
}
_MEANS: Final[Mapping[str, str]] = {
    "target_file_size_bytes": "target-file-size-bytes",
    "compaction_strategy": "strategy",
    "min_snapshot_to_keep": "retain_last",
    "min_snapshots_to_keep": "retain_last",
}
_LEFT_TO_THE_TABLE: Final = {"max_ref_age_days": "history.expire.max-ref-age-ms"}


def parse_policies(
    text: str, file: str, known: Mapping[str, Collection[str]], now_ms: int
) -> tuple[Part, tuple[str, ...]]:
    """What the policies of a file say, and notes on what of them has no effect.

    ``known`` has the options by service. Raises OptionError for what is no policy, or not known, or contradictory.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{file} is no JSON: {error}; give a file with policies of Polaris") from None
    if isinstance(document, dict) and "policies" in document:
        whole = Fields(document, file)
        whole.check(("policies",))
        document = whole.take("policies")
    parts, notes = [], []
    for policy in document if isinstance(document, list) else [document]:
        part, noted = _policy(Fields(policy, f"{file}: a policy"), file, known, now_ms)
        parts.append(part)
        notes += noted
    return merge(parts), tuple(notes)


def _policy(fields: Fields, file: str, known: Mapping[str, Collection[str]], now_ms: int) -> tuple[Part, list[str]]:
    fields.check(_ENVELOPE)
    kind = fields.text("type") or fields.text("policy-type") or ""
    fields.where = f"{file}: policy {fields.text('name') or kind}"
    if kind not in _SERVICES:
        raise OptionError(f"{fields.where}: {OptionError.unknown(kind or '(none)', _SERVICES, 'of its types')}")
    service, own = _SERVICES[kind]
    content = Fields(_object(fields.take("content"), fields.where), fields.where)
    content.check(("version", "enable", "config", *own))
    version = content.text("version") or _VERSION
    if version != _VERSION:
        raise OptionError(f"{fields.where}: its content has version {version}, and {_VERSION} alone is known")
    enable = content.truth("enable")
    if enable is None:
        raise OptionError(f"{fields.where}: its content does not say enable; write true or false")
    config = content.table("config").rest()
    settings: dict[tuple[str, str], str] = {}
    notes = []
    for name, value in [*content.rest().items(), *flat(config)]:
        if name in _LEFT_TO_THE_TABLE:
            notes.append(f"{fields.where}: {name} has no effect; the table's {_LEFT_TO_THE_TABLE[name]} decides")
            continue
        option, said = _option(name, value, fields.where, known[service], now_ms)
        if settings.setdefault((service, option), said) != said:
            raise OptionError(f"{fields.where}: {name} and another name set {option} to different values; give it once")
    return Part(settings, enabled={service: enable}), notes


def _option(name: str, value: Any, where: str, known: Collection[str], now_ms: int) -> tuple[str, str]:
    if name in _PLACES:
        raise OptionError(
            f"{where}: {name} is of one table; give it as service.remove-orphan-files.location in an override of it"
        )
    if name in _DAYS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**6:
            raise OptionError(f"{where}: {name} is {value!r:.80} but must be a number of days")
        return "older_than", days_ago(value, now_ms)
    if name == "older_than":  # a Unix timestamp, in seconds
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**11:
            raise OptionError(f"{where}: {name} is {value!r:.80} but must be a Unix timestamp in seconds")
        return name, str(round(value * 1000))
    spellings = (_MEANS.get(name, name), name.replace("_", "-"), name.replace("-", "_"))
    option = next((spelling for spelling in spellings if spelling in known), None)
    if option is None:
        raise OptionError(f"{where}: {OptionError.unknown(name, [*known, *_MEANS, *_DAYS])}")
    if option == "strategy" and value == "bin-pack":
        value = "binpack"
    return option, option_text(option, value, now_ms)


def _object(content: Any, where: str) -> Any:
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{where}: its content is no JSON: {error}") from None
