"""Files of versioned buckets: hidden behind delete markers, shown again, and deleted for good.

Rules of this module:

1. A bucket keeps versions if its versioning is enabled: not if it is suspended, and not if the service will not say.
2. A delete marker is taken off by its version id; where that is not known, the newest marker of the key is meant. Then
   the version before it is the file again. While there is a file, nothing of it is touched.
3. What a marker hides is the newest version before it. For good go both, the version first: a marker that is left
   hides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.errors import LakemetaError
from lakemeta.report import Outcome
from lakemeta.storage.failure import reason, storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_KEYS_A_REQUEST = 1000


@attrs.frozen
class Service:
    """How the service is asked: a request by name, and whether there is a file or directory."""

    call: Callable[..., Any]
    exists: Callable[[str], bool]


def versioned(service: Service, bucket: str) -> bool:
    """Rule 1."""
    try:
        return bool(service.call("get_bucket_versioning", Bucket=bucket).get("Status") == "Enabled")
    except Exception:  # noqa: BLE001 - who may not ask gets copies, which work everywhere
        return False


def hide_many(service: Service, paths: Sequence[str]) -> list[Outcome]:
    """Put a delete marker on each file; one that is not there is ``absent`` if it has no marker either."""
    found: dict[str, Outcome] = {}
    for bucket, mine in _by_bucket(paths).items():
        for start in range(0, len(mine), _KEYS_A_REQUEST):
            batch = mine[start : start + _KEYS_A_REQUEST]
            keys = [{"Key": path.partition("/")[2]} for path in batch]
            try:
                answer = service.call("delete_objects", Bucket=bucket, Delete={"Objects": keys})
            except Exception as error:  # noqa: BLE001 - botocore raises many kinds; the outcomes tell it
                found |= {path: Outcome(path, "failed", reason(error)) for path in batch}
                continue
            for one in answer.get("Errors", ()):
                path = f"{bucket}/{one['Key']}"
                found[path] = Outcome(path, "failed", f"{one.get('Code', '')}: {one.get('Message', '')}")
            for one in answer.get("Deleted", ()):
                path = f"{bucket}/{one['Key']}"
                found[path] = Outcome(path, "deleted", version=one.get("DeleteMarkerVersionId"))
    return [found.get(path, Outcome(path, "failed", "the service says nothing of it")) for path in paths]


def unhide_many(service: Service, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
    """Take markers off (rule 2): ``deleted`` if the file is back, ``absent`` if there is none to bring back."""
    return [_tried(path, partial(_unhide, service, path, marker)) for path, marker in paths]


def _unhide(service: Service, path: str, marker: str | None) -> Outcome:
    if service.exists(path):
        return Outcome(path, "failed", "it exists")
    hidden = _hidden(service, path, marker)
    if hidden is None:
        return Outcome(path, "absent")
    markers, _ = hidden
    if len(markers) > 1 and marker is not None and markers[0] != marker:
        return Outcome(path, "failed", "it was deleted again since; bring that run's files back first")
    _forget(service, path, markers[0] if marker is None else marker)
    return Outcome(path, "deleted") if service.exists(path) else Outcome(path, "absent")


def forget_many(service: Service, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
    """Delete for good what markers hide (rule 3)."""
    return [_tried(path, partial(_purge, service, path, marker)) for path, marker in paths]


def _purge(service: Service, path: str, marker: str | None) -> Outcome:
    hidden = None if service.exists(path) else _hidden(service, path, marker)
    if hidden is None:
        return Outcome(path, "absent")
    markers, version = hidden
    if version is not None:
        _forget(service, path, version)
    _forget(service, path, markers[0] if marker is None else marker)
    return Outcome(path, "deleted" if version is not None else "absent")


def _hidden(service: Service, path: str, marker: str | None) -> tuple[list[str], str | None] | None:
    """The markers of a file from the newest on, and the version that one of them hides; None if it has no such."""
    markers: list[str] = []
    version, seen = None, False
    for kind, one in _history(service, path):
        if kind == "DeleteMarkers":
            markers.append(one)
            seen = seen or marker is None or one == marker
        elif seen:
            version = one
            break
    return (markers, version) if seen else None


def _history(service: Service, path: str) -> Iterator[tuple[str, str]]:
    """Markers and versions of one key, newest first."""
    bucket, _, key = path.partition("/")
    more: dict[str, str] = {}
    found: list[tuple[Any, bool, str, str]] = []
    while True:
        page = service.call("list_object_versions", Bucket=bucket, Prefix=key, **more)
        others = False
        for kind in ("Versions", "DeleteMarkers"):
            for one in page.get(kind) or ():
                if one["Key"] == key:
                    found.append((one["LastModified"], one.get("IsLatest") is True, kind, one["VersionId"]))
                else:
                    others = True
        if others or not page.get("IsTruncated"):  # keys come in order, and the key itself before those it begins
            break
        more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    # The service lists each kind newest first; of one second a marker is newer than the version that it hides.
    found.sort(key=lambda one: (one[1], one[0], one[2] == "DeleteMarkers"), reverse=True)
    yield from ((kind, version) for _, _, kind, version in found)


def _forget(service: Service, path: str, version: str) -> None:
    bucket, _, key = path.partition("/")
    with storage_errors("remove", path):
        service.call("delete_object", Bucket=bucket, Key=key, VersionId=version)


def _tried(path: str, work: Callable[[], Outcome]) -> Outcome:
    try:
        return work()
    except LakemetaError as error:
        return Outcome(path, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - as above
        return Outcome(path, "failed", reason(error))


def _by_bucket(paths: Sequence[str]) -> dict[str, list[str]]:
    buckets: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        buckets.setdefault(path.partition("/")[0], []).append(path)
    return buckets
