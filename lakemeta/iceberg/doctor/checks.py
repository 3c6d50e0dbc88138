"""Says in plain words what is wrong with the files of an Iceberg table (I/O: reads the footer of every live file)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.finding import Finding, Findings, examples
from lakemeta.iceberg.doctor.footers import look_into_footers
from lakemeta.iceberg.expire.left import left_by_expires
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.doctor.footers import Look
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata

_MAIN = "main"


def diagnose(place: Place, executor: Executor) -> Findings:
    """Look at every live Parquet file of the table's branches, each once."""
    metadata = place.operations.refresh().metadata
    storage = place.operations.storage
    stored = StoredManifests(storage, metadata.specs_by_id, executor)
    seen: set[str] = set()
    looked = 0
    findings: list[Finding] = []
    for branch, head in _heads(metadata):
        bad = []
        for look in look_into_footers(storage, _live_files(stored, head, seen), executor):
            looked += 1
            if look.lost or look.problem:
                bad.append(look)
        findings += _findings(place.url, branch, bad)
    findings += _left_by_expires(place, executor)
    count = count_of(looked, "Parquet file")
    findings.append(Finding("footers_read", "note", f"the footers of {count} were read, of all branches"))
    return Findings(findings)


def _left_by_expires(place: Place, executor: Executor) -> Iterator[Finding]:
    """Files that an expire was to delete and that are still there."""
    left, arguments = left_by_expires(place.operations, executor)
    if left:
        size = sum(file.size for file in left)
        sentence = (
            f"{count_of(len(left), 'file')} ({human_bytes(size)}) that an expire-snapshots did not or could not delete "
            f"are still there, and no snapshot names them: {examples([file.location for file in left])}; "
            f"run lakemeta expire-snapshots {place.url}{arguments}, which tries again"
        )
        yield Finding("failed_deletions", "wrong", sentence, size)


def _heads(metadata: TableMetadata) -> Iterator[tuple[str, Snapshot]]:
    """The head of every branch, the main branch's first."""
    if metadata.current_snapshot is not None:
        yield _MAIN, metadata.current_snapshot
    for name, ref in sorted(metadata.refs.items()):
        if ref.is_branch and name != _MAIN:
            yield name, metadata.snapshot(ref.snapshot_id)


def _live_files(stored: StoredManifests, head: Snapshot, seen: set[str]) -> Iterator[DataFile]:
    """The live files of manifests that were not seen before."""
    manifests = [m for m in stored.of(head) if m.manifest_path not in seen]
    seen.update(m.manifest_path for m in manifests)
    for entries in stored.stream(manifests, frozenset()):
        yield from (entry.data_file for entry in entries if entry.is_live)


def _findings(url: str, branch: str, looks: Sequence[Look]) -> Iterator[Finding]:
    on = "" if branch == _MAIN else f" --set branch={branch}"
    mend = f"lakemeta rewrite-data-files {url} --set rewrite-all=true{on}"
    for is_data in (True, False):
        lost = [look for look in looks if look.is_data == is_data and look.lost]
        if lost:
            yield _lost(lost, mend, is_data=is_data)
    unreadable = [look for look in looks if look.problem]
    if unreadable:
        files, size = count_of(len(unreadable), "live file"), sum(look.bytes for look in unreadable)
        problems = examples([str(look.problem) for look in unreadable])
        yield Finding("unreadable_files", "wrong", f"the footers of {files} cannot be read: {problems}", size)


def _lost(looks: Sequence[Look], mend: str, *, is_data: bool) -> Finding:
    files = count_of(len(looks), "data file" if is_data else "delete file")
    rows = count_of(sum(look.lost for look in looks), "row")
    named = examples([f"{look.location} ({look.lost:,} of {look.rows:,} rows)" for look in looks])
    sentence = (
        f"{files} with column chunks in an order in which Spark and every other reader by parquet-java misses {rows}, "
        f"without an error: {named}; lakemeta reads them whole, so before any other engine rewrites them, run  {mend}"
    )
    kind = "lost_rows" if is_data else "lost_deletes"
    return Finding(kind, "wrong", sentence, sum(look.bytes for look in looks))
