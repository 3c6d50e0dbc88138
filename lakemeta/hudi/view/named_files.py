"""What the plan of a clean or rollback may name at all, whoever made it: data files in their partitions.

A path is refused unless it lies inside the table, directly in the directory of the partition that it is listed under,
and is a data file's; so is a partition in the table's metadata. Refused by its name alone, in whatever slice, is a file
that a completed savepoint names, or the plan of a pending compaction, log compaction or clustering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.layout import METADATA_FOLDER
from lakemeta.hudi.files.names import parse_data_file
from lakemeta.paths import inside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from lakemeta.hudi.files.names import BaseFile, LogFile


def check_partition(root: str, partition: str, what: str = "the table's metadata") -> str:
    """The store path of a partition that ``what`` names, which is a path relative to the table.

    Raises CorruptMetadataError for one with empty, ``.`` or ``..`` parts, or with ``.hoodie`` in any case of letters.
    """
    if not partition:
        return root
    if METADATA_FOLDER in partition.lower().split("/"):  # some stores take upper case for the same
        raise CorruptMetadataError(f"{what} reaches into {partition}, the table's own metadata; nothing was done")
    return inside(root, f"{root}/{partition}")


@attrs.frozen
class NamedFiles:
    """The checks of one plan, which is called ``what`` in messages ("the clean plan").

    ``root`` is the table's store path; ``pinned`` are the names that savepoints pin, each with a savepoint's instant,
    ``claimed`` those in plans of pending operations, each with the operation ("compaction 20260801100000000").
    ``instead`` is what else to do where the plan names one of them.
    """

    what: str
    root: str
    pinned: Mapping[str, str]
    claimed: Mapping[str, str]
    instead: str

    @classmethod
    def of(
        cls, what: str, root: str, savepoints: Mapping[str, AbstractSet[str]], claimed: Mapping[str, str], instead: str
    ) -> NamedFiles:
        """The checks against ``savepoints``, instant -> names of the files it pins, and ``claimed``."""
        pinned = {name: savepoint for savepoint, names in savepoints.items() for name in names}
        return cls(what, root, pinned, claimed, instead)

    def folder(self, partition: str) -> str:
        """The store path of a partition; raises CorruptMetadataError if it is none that a plan may name."""
        return check_partition(self.root, partition, self.what)

    def file(self, partition: str, folder: str, path: str) -> BaseFile | LogFile:
        """The data file at a store path that is listed under a partition, whose path is ``folder``.

        Raises CorruptMetadataError if it is none that a plan may name.
        """
        parent, _, name = path.rpartition("/")
        if parent != folder:
            raise CorruptMetadataError(f"{self.what} lists {path} under partition {partition!r}; nothing was done")
        file = parse_data_file(name)
        if file is None:
            raise CorruptMetadataError(f"{self.what} deletes {path}, which is no data file; nothing was done")
        if name in self.pinned:
            raise CorruptMetadataError(
                f"{self.what} deletes {path}, which savepoint {self.pinned[name]} needs; delete the savepoint with "
                f"Hudi, {self.instead}"
            )
        if name in self.claimed:
            raise CorruptMetadataError(
                f"{self.what} deletes {path}, which the pending {self.claimed[name]} reads; have Hudi run that, "
                f"{self.instead}"
            )
        return file
