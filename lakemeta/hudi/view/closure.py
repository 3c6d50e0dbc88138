"""What commits say that a table has, held against the files that it has, before any is deleted (I/O: reads commits).

Rules of this module, which shares nothing with how a clean is planned, neither slices nor policies:

1. Of each file group that no commit has replaced there is the newest base file, and each log file from it on, that
   completed commits of the active timeline name. Where a directory has a newer base file, commits that are archived
   have written it, and the older files may be gone.
2. Of a plan that retains commits from one on, there is every file that these commits wrote, and the newest base file
   before them of each group, unless a clean took it: the plan of a clean on the active timeline names it, or cleans
   that may have are archived.
3. A base file has the size that its commit recorded, and a log file, which some stores append to, at least that.
4. No plan deletes such a file.
5. A sample reads the newest commits until they have named ``SAMPLE_FILES`` files, and looks at those in directories
   that are listed anyway. Everything is all commits of the timeline, and all directories that they and savepoints name.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from lakemeta.errors import CorruptMetadataError, PathNotFoundError
from lakemeta.hudi.files.names import BaseFile, parse_base_file, parse_data_file
from lakemeta.hudi.timeline.action_metadata import decode_cleaner_plan
from lakemeta.hudi.timeline.instants import WRITES
from lakemeta.hudi.timeline.written_files import written_files
from lakemeta.safeguards import damaged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lakemeta.hudi.files.names import LogFile
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.storage import Storage

SAMPLE_FILES: Final = 1000


class Kept(NamedTuple):
    """A file that is to be there: its recorded size in bytes or None, who names it, and if by rule 1 or only by 2."""

    size: int | None
    by: str
    newest: bool


class Problem(NamedTuple):
    """A file that does not fit: what is wrong with it, as a clause, and if the plan deletes it or it is missing."""

    partition: str
    name: str
    clause: str
    planned: bool
    missing: bool
    kept: Kept

    @property
    def path(self) -> str:
        """Where the file is or was, relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


@attrs.frozen
class Closure:
    """The files that are to be there, by partition and name; ``pending`` are instants that have not completed.

    ``commits`` are how many have been read, of ``of_commits``.
    """

    kept: Mapping[str, Mapping[str, Kept]]
    pending: frozenset[str]
    commits: int
    of_commits: int

    def of(self, partition: str) -> Closure:
        """As far as it is about one partition: small, and shipped to workers."""
        return attrs.evolve(self, kept={partition: self.kept[partition]} if partition in self.kept else {})

    @property
    def how(self) -> str:
        """How the files were chosen and looked up, in a few words."""
        part = f"the newest {self.commits} of " if self.commits < self.of_commits else ""
        return f"of {part}{self.of_commits} commits, by listing"


def read_closure(
    storage: Storage, root: str, state: TableState, earliest: str, *, everything: bool, partitions: Collection[str]
) -> Closure:
    """What commits say; ``earliest`` is the first commit that a plan retains, "" for none.

    Without ``everything`` only of these partitions, and of the newest commits (rule 5). Raises CorruptMetadataError for
    a commit that cannot be decoded.
    """
    commits = sorted((i for i in state.timeline.completed if i.action in WRITES), key=_requested, reverse=True)
    found = _Reading(state, earliest)
    left, count = SAMPLE_FILES, 0
    for commit in commits if everything or partitions else ():
        files = list(_files_of(storage, root, state, commit, None if everything else left))
        left, count = left - len(files), count + 1
        for partition, name, size in files:
            if everything or partition in partitions:
                found.add(commit, partition, name, size)
        if not everything and left <= 0:
            break
    if everything:
        found.add_savepoints()
    pending = frozenset(i.requested for i in state.timeline.pending)
    return Closure(found.kept, pending, count, len(commits))


def _requested(instant: Instant) -> str:
    return instant.requested


def _files_of(
    storage: Storage, root: str, state: TableState, commit: Instant, limit: int | None
) -> Iterator[tuple[str, str, int | None]]:
    path = f"{root}/{state.config.timeline_folder}/{commit.file_name}"
    try:
        content = storage.read(path)
    except PathNotFoundError:
        return iter(())  # archived meanwhile
    return islice(written_files(content, path), limit)


class _Reading:
    """Commits, newest first, as they become what is to be there."""

    def __init__(self, state: TableState, earliest: str) -> None:
        self._state, self._earliest = state, earliest
        self._newest: dict[tuple[str, str], str] = {}  # of each group, the instant of its newest base file
        self._before: set[tuple[str, str]] = set()  # groups of which a base file from before what is retained was seen
        self.kept: dict[str, dict[str, Kept]] = {}

    def add(self, commit: Instant, partition: str, name: str, size: int | None) -> None:
        """A file that a commit wrote."""
        file = parse_data_file(name)
        if file is None:
            return
        group = (partition, file.file_id)
        replaced_at = self._state.replaced.get(group)
        newest = replaced_at is None and file.instant >= self._newest.get(group, "")
        retained = self._retains(commit, group, replaced_at, is_base=isinstance(file, BaseFile))
        if isinstance(file, BaseFile):
            self._newest.setdefault(group, file.instant)
        if newest or retained:
            self.kept.setdefault(partition, {}).setdefault(name, Kept(size, str(commit), newest))

    def _retains(self, commit: Instant, group: tuple[str, str], replaced_at: str | None, *, is_base: bool) -> bool:
        if not self._earliest or (replaced_at is not None and replaced_at < self._earliest):
            return False
        if commit.requested >= self._earliest:
            return True
        first = is_base and group not in self._before
        self._before.add(group)
        return first

    def add_savepoints(self) -> None:
        """What savepoints pin; they record no sizes."""
        for partition, names in self._state.pinned.items():
            for name, savepoint in names.items():
                self.kept.setdefault(partition, {}).setdefault(name, Kept(None, f"savepoint {savepoint}", False))


def problems(closure: Closure, partition: str, files: Mapping[str, int], planned: Collection[str]) -> Iterator[Problem]:
    """What does not fit in a partition: ``files`` maps the names in its directory to bytes, ``planned`` are to go."""
    superseded: dict[str, str] | None = None
    for name, kept in closure.kept.get(partition, {}).items():
        size = files.get(name)
        wrong = None if size is None else _wrong_size(name, kept, size)
        if size is not None and wrong is None and name not in planned:
            continue
        if superseded is None:
            superseded = _newest_bases(files, closure.pending)
        file = parse_data_file(name)
        if kept.newest and file is not None and superseded.get(file.file_id, "") > file.instant:
            continue
        yield Problem(partition, name, wrong or "is not there", name in planned, size is None, kept)


def _wrong_size(name: str, kept: Kept, size: int) -> str | None:
    if kept.size is None or size == kept.size:
        return None
    is_log = parse_base_file(name, 0) is None
    return None if is_log and size > kept.size else f"has {size:,} bytes instead of {kept.size:,}"


def _newest_bases(files: Iterable[str], pending: frozenset[str]) -> dict[str, str]:
    """The instant of the newest base file of each group in a directory, those of unfinished writes aside."""
    newest: dict[str, str] = {}
    for name in files:
        file: BaseFile | LogFile | None = parse_base_file(name, 0)
        if file is not None and file.instant not in pending and file.instant > newest.get(file.file_id, ""):
            newest[file.file_id] = file.instant
    return newest


def refuse_damage(storage: Storage, root: str, state: TableState, found: Iterable[Problem]) -> None:
    """Raise CorruptMetadataError for the first file that is not as it should be, and no clean explains (rule 2)."""
    problem = _unexplained(storage, root, state, (problem for problem in found if not problem.planned))
    if problem is not None:
        raise damaged(problem.path, f"{problem.kept.by} names, {problem.clause}", storage.url(root))


def refuse_planned(found: Iterable[Problem]) -> None:
    """Raise CorruptMetadataError for the first file that a plan deletes (rule 4)."""
    problem = next((problem for problem in found if problem.planned), None)
    if problem is not None:
        raise CorruptMetadataError(
            f"the plan deletes {problem.path}, which {problem.kept.by} names and the table is to keep; nothing was "
            "deleted; make the plan again, or go on with --proof=off"
        )


def _unexplained(storage: Storage, root: str, state: TableState, found: Iterable[Problem]) -> Problem | None:
    found = list(found)
    if not any(problem.missing for problem in found):
        return next(iter(found), None)
    taken = _taken_by_cleans(storage, root, state)
    oldest = next((i.requested for i in state.timeline.cleans.completed), "")
    for problem in found:
        archived = not problem.kept.newest and problem.kept.by < oldest
        if not problem.missing or (problem.name not in taken and not archived):
            return problem
    return None


def _taken_by_cleans(storage: Storage, root: str, state: TableState) -> set[str]:
    """The names in the plans of all cleans on the active timeline, executed or not."""
    taken: set[str] = set()
    for clean in state.timeline.cleans:
        path = f"{root}/{state.config.timeline_folder}/{clean.requested}.clean.requested"
        try:
            content = storage.read(path)
        except PathNotFoundError:
            continue
        if content:
            files = decode_cleaner_plan(content, path).files.values()
            taken.update(file.path.rpartition("/")[2] for listed in files for file in listed)
    return taken
