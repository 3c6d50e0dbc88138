"""Files that earlier cleans could not delete, and that are to go now (I/O).

Rules of this module:

1. A completed clean names in ``failedDeleteFiles`` what it could not delete. Hudi never comes back to these: its next
   incremental clean does not visit their partitions, and its metadata table lists them no more. Here the next clean
   takes them up, also when nothing else is due, from every completed clean on the active timeline. A writer may
   archive one of these while they are read.
2. Only what lies in its partition's directory counts. Releases 0.15 and 1.0 name files, too, that were gone already.
3. They are judged by the same rules as every other file, by what storage lists, and go only if these let them go. A log
   file whose base file did go belongs to the slice before, and stays as long as that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakemeta.hudi.clean.partitions import plan_partitions
from lakemeta.hudi.timeline.action_metadata import decode_failed_deletes
from lakemeta.hudi.timeline.loading import InstantReader
from lakemeta.hudi.view.named_files import check_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.clean.partitions import FileRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.timeline.state import TableState

FAILED_BEFORE: Final = "failed_before"


class FailedDeletion(NamedTuple):
    """A file that is still there, how it is judged now, and the newest clean that could not delete it."""

    partition: str
    file: FileRow
    clean: str

    @property
    def path(self) -> str:
        """Where it lies, relative to the table."""
        return f"{self.partition}/{self.file.name}" if self.partition else self.file.name


def read_failures(place: Place, state: TableState, executor: Executor) -> dict[str, dict[str, str]]:
    """What completed cleans could not delete: partition -> file name -> the newest clean that failed to.

    Raises CorruptMetadataError if one names a partition that does not lie in the table.
    """
    reader = InstantReader(place.storage, f"{place.root}/{state.config.timeline_folder}", executor)
    whole = state.timeline.cleans.completed.where(lambda clean: clean.size > 0)
    failures: dict[str, dict[str, str]] = {}
    for instant, failed in reader.decode_active(whole, decode_failed_deletes):
        for partition, names in failed.items():
            check_partition(place.root, partition, f"clean {instant}")
            failures.setdefault(partition, {}).update((name, instant) for name in names)
    return failures


def still_there(
    place: Place, context: CleanContext, failures: Mapping[str, Mapping[str, str]], executor: Executor
) -> Iterator[FailedDeletion]:
    """The files of ``failures`` that storage has, judged by the rules of ``context``."""
    if not failures:
        return
    for row in plan_partitions(place.storage, place.root, context, executor, sorted(failures), explain=True):
        named = failures[row.partition]
        yield from (FailedDeletion(row.partition, file, named[file.name]) for file in row.files if file.name in named)
