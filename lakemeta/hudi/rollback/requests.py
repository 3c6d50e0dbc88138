"""What undoes one failed write: the rollback requests that its markers, or the files of all partitions, call for.

Rules of this module (``MarkerBasedRollbackStrategy``, ``ListingBasedRollbackStrategy``, ``RollbackUtils``):

1. A marker names a file that the write was about to make. Files with CREATE and MERGE markers go.
2. Table version 6 appends updates to log files that are named by an earlier slice; they have APPEND markers. Such a
   file stays, and a rollback command block in a new log file of the slice undoes the write's blocks. A log file that is
   named by the failed write goes.
3. From version 8 on a log file is named by its own write and goes; there are no APPEND markers.
4. Without markers, by listing: all base and log files that the failed write's instant names go. In version 6 every
   file group that the inflight delta commit updates gets a rollback command block.
5. A marker for a file of another instant, or for what is no data file, contradicts the rest and is refused.
6. Unlike Hudi, log files that are named by a marker but were never written get no rollback block.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.files.names import BaseFile, LogFile, parse_data_file
from lakemeta.hudi.timeline.rollback_metadata import RollbackRequest
from lakemeta.hudi.view.file_groups import View, build_file_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.hudi.timeline.action_metadata import CommitMetadata

_MARKER: Final = re.compile(r"(?P<path>.+)\.marker\.(?P<kind>[A-Z]+)")
_SOME_BLOCKS: Final = 1  # markers do not say how much was appended, and Hudi writes 1


@attrs.frozen(slots=True)
class Marker:
    """One marker: the file it stands for, relative to the table root, and the kind (CREATE, MERGE, APPEND)."""

    path: str
    kind: str

    @property
    def partition(self) -> str:
        """The partition of the file."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


def parse_marker(text: str, where: str) -> Marker:
    """Read ``<partition>/<file>.marker.<kind>``; raises CorruptMetadataError, naming ``where``, if it is none."""
    match = _MARKER.fullmatch(text)
    if match is None or match["kind"] not in ("CREATE", "MERGE", "APPEND"):
        raise CorruptMetadataError(
            f"{where} has the marker {text!r:.200}, which is none that Hudi writes; nothing was done"
        )
    return Marker(match["path"], match["kind"])


def marker_requests(
    markers: Iterable[Marker], listed: Mapping[str, Mapping[str, int]], instant: str, base: str, version: int
) -> tuple[RollbackRequest, ...]:
    """What undoes the write at ``instant`` by its markers.

    ``listed`` has the files of all partitions that markers name; ``base`` is the table root as the engine writes it.
    """
    requests: list[RollbackRequest] = []
    for marker in sorted(set(markers), key=lambda m: (m.path, m.kind)):
        file = _data_file(marker)
        if marker.kind == "APPEND" and version >= 8:
            raise UnsupportedFeatureError(
                f"the write at {instant} has the marker {marker.path}.marker.APPEND, but a table of version {version} "
                "has no such markers; roll it back with hoodie.rollback.using.markers=false"
            )
        if file.instant == instant:
            requests.append(RollbackRequest(marker.partition, file.file_id, instant, (f"{base}/{marker.path}",)))
        elif marker.kind == "APPEND":
            if file.name in listed.get(marker.partition, {}):
                blocks = {file.name: _SOME_BLOCKS}
                requests.append(RollbackRequest(marker.partition, file.file_id, file.instant, (), blocks))
        else:
            raise CorruptMetadataError(
                f"the write at {instant} has a marker for {marker.path}, a file of another write; nothing was done"
            )
    return _merged(requests)


def listing_requests(
    listed: Mapping[str, Mapping[str, int]],
    instant: str,
    base: str,
    updates: CommitMetadata | None,
    view: View,
) -> tuple[RollbackRequest, ...]:
    """What undoes the write at ``instant`` by the files of all partitions.

    ``updates`` is the inflight delta commit of table version 6, which says what file groups were to be updated; None
    elsewhere. ``view`` knows which slices are committed.
    """
    requests: list[RollbackRequest] = []
    for partition, files in listed.items():
        prefix = f"{base}/{partition}/" if partition else f"{base}/"
        for name in sorted(files):
            file = parse_data_file(name)
            if file is not None and file.instant == instant:
                requests.append(RollbackRequest(partition, "", "", (prefix + name,)))
        if updates is not None:
            requests.extend(_update_requests(partition, files, instant, base=base, updates=updates, view=view))
    return _merged(requests)


def _data_file(marker: Marker) -> BaseFile | LogFile:
    file = parse_data_file(marker.name)
    if file is None:
        raise CorruptMetadataError(f"the marker of {marker.path} stands for no data file; nothing was done")
    if marker.kind == "APPEND" and isinstance(file, BaseFile):
        raise UnsupportedFeatureError(
            f"the marker {marker.path}.marker.APPEND is of a form that Hudi 0.13 and older wrote; roll back with "
            "hoodie.rollback.using.markers=false"
        )
    return file


def _update_requests(
    partition: str,
    files: Mapping[str, int],
    instant: str,
    *,
    base: str,
    updates: CommitMetadata,
    view: View,
) -> Iterator[RollbackRequest]:
    """A rollback block for each group that the write may have updated and that has an earlier committed slice."""
    updated = [s for s in updates.write_stats.get(partition, ()) if s.get("prevCommit") not in (None, "null")]
    if not updated:
        return
    newest = {
        group.file_id: max(
            (s.instant for s in group.slices if s.instant <= instant and view.counts(s.instant)), default=""
        )
        for group in build_file_groups(partition, files.items(), view)
    }
    for stat in updated:
        slice_instant = newest.get(stat.get("fileId", ""), "")
        if "" < slice_instant < instant:
            path = stat.get("path")
            log_file = f"{base}/{path}" if path else base  # an inflight commit has no path yet, and Hudi writes this
            yield RollbackRequest(
                partition, stat["fileId"], slice_instant, (), {log_file: stat.get("totalWriteBytes") or _SOME_BLOCKS}
            )


def _merged(requests: Sequence[RollbackRequest]) -> tuple[RollbackRequest, ...]:
    """One request for each slice that gets a rollback block, however many of its log files are undone."""
    merged: dict[object, RollbackRequest] = {}
    for request in requests:
        key = request.files or (request.partition, request.file_id, request.base_instant)
        earlier = merged.get(key)
        if earlier is not None:
            request = attrs.evolve(earlier, log_blocks={**earlier.log_blocks, **request.log_blocks})
        merged[key] = request
    return tuple(merged.values())
