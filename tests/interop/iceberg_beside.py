"""A service of lakemeta beside Spark's procedure: both on the same table in the same place, one after the other.

``Beside.call`` runs the procedure, notes what it left, puts the table back, runs ours, and gives the differences in
sentences. What is compared is what the engine's users see: counters, metadata, files that went, entries, rows.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import fastavro
import pyarrow.parquet as pq
from interop.engine_process import EngineError
from support.iceberg_checker import PATH_ID, POSITION_ID, TableState

from lakemeta.errors import LakemetaError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.doors import LEDGERS
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from generate.iceberg_histories import History
    from interop.iceberg_engine import IcebergEngine

Json = Any
OF_METADATA = (
    *("current-snapshot-id", "refs", "schemas", "partition-specs", "statistics", "partition-statistics"),
    *("snapshot-log", "properties", "default-spec-id", "current-schema-id", "format-version", "last-partition-id"),
)
OF_SEQUENCE = ("next-row-id", "last-sequence-number")
NUMBERS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
OF_FILE = ("first_row_id", "content", "content_offset", "record_count")
ENGINES = {"engine-name", "engine-version", "app-id", "app-name", "iceberg-version", "spark.app.id"}


@attrs.frozen
class Outcome:
    """What one side left: its result or refusal, the table, and its files."""

    result: Json
    refusal: str | None
    state: TableState
    files: frozenset[str]
    seen: Json


class Beside:
    """Runs both sides on copies of one history's table; ``troubles`` are the differences."""

    def __init__(self, engine: IcebergEngine, history: History, scratch: Path) -> None:
        self.engine, self.history = engine, history
        self.saved = scratch / f"saved_{history.name}"
        self.troubles: list[str] = []
        self.calls = 0
        for setting in ("codegen.wholeStage=false", "codegen.factoryMode=NO_CODEGEN", "adaptive.enabled=false"):
            engine.sql(f"SET spark.sql.{setting}")  # tables are so small that compiling takes longest
        self._keep(history.root)

    def _keep(self, table: Path) -> None:
        """Take the table as it is now for the one to compare on."""
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(table, self.saved)
        self.before, self.files = TableState.local(table), self.history.names_of_files()

    def call(self, service: str, arguments: dict[str, Any], properties: dict[str, str]) -> None:
        """Both sides do a service on the table, once these properties are set."""
        first = self.saved
        if properties:
            self.history.attempt(
                {"call": "set_properties", "table": f"ice.db.{self.history.name}", "properties": properties}
            )
            self.saved = first.with_name(f"{first.name}_with_properties")
            self._keep(self.history.root)
        self.calls += 1
        getattr(self, service)(arguments)
        self.saved = first
        self._restore()
        self.before, self.files = TableState.local(self.history.root), self.history.names_of_files()

    def _restore(self) -> None:
        shutil.rmtree(self.history.root)
        shutil.copytree(self.saved, self.history.root)

    def expire(self, arguments: dict[str, Any]) -> None:
        theirs, ours = self._both("expire_snapshots", "expire-snapshots", arguments)
        label = f"expire_snapshots {arguments}"
        if self._refused(label, theirs, ours):
            return
        self._same(label, "result", ours.result, theirs.result[0])
        self._same(label, "snapshots", snapshot_ids(ours.state), snapshot_ids(theirs.state))
        for field in (*OF_METADATA, *OF_SEQUENCE):
            self._same(label, field, *(unordered(field, o.state.metadata) for o in (ours, theirs)))
        self._same(label, "deleted files", self.files - ours.files, self.files - theirs.files)
        self._same(label, "added files", ours.files - self.files, theirs.files - self.files)
        if self.troubles:  # otherwise the two tables are the same to every reader
            self._check_rows(label)

    def manifests(self, arguments: dict[str, Any]) -> None:
        theirs, ours = self._both("rewrite_manifests", "rewrite-manifests", arguments, self._stored)
        label = f"rewrite_manifests {arguments}"
        if self._refused(label, theirs, ours):
            return
        self._same(label, "result", ours.result, theirs.result[0])
        for field in OF_SEQUENCE:
            self._same(label, field, ours.state.metadata.get(field), theirs.state.metadata.get(field))
        self._same(label, "kinds", kinds(ours.state.manifests), kinds(theirs.state.manifests))
        old = self._old()
        kept = [[m["manifest_path"] for m in o.state.manifests if m["manifest_path"] in old] for o in (ours, theirs)]
        self._same(label, "manifests kept", *kept)
        new = [[m for m in o.state.manifests if m["manifest_path"] not in old] for o in (ours, theirs)]
        self._same(label, "entries as stored", ours.seen, theirs.seen)
        self._same(label, "live entries", *(resolved(o.state, one_each(new)) for o in (ours, theirs)))
        if one_each(new):
            rows = [[(m.get("content") or 0, m.get("first_row_id")) for m in manifests] for manifests in new]
            self._same(label, "first row ids", *rows)
        self._same(label, "summary", *(summaries(self.before, o.state) for o in (ours, theirs)))
        self._check_rows(label)

    def _old(self) -> set[str]:
        return {m["manifest_path"] for m in self.before.manifests}

    def _stored(self, state: TableState) -> Json:
        old = self._old()
        return stored([m for m in state.manifests if m["manifest_path"] not in old])

    def position_deletes(self, arguments: dict[str, Any]) -> None:
        theirs, ours = self._both("rewrite_position_delete_files", "rewrite-position-deletes", arguments, self._deleted)
        label = f"rewrite_position_delete_files {arguments}"
        if theirs.refusal and "Cannot merge DVs" in theirs.refusal:
            self._same(label, "positions", ours.seen[0] if ours.seen else ours.refusal, theirs.seen[0])
            return
        if self._refused(label, theirs, ours):
            return
        self._check_rows(label)
        self._same(label, "result", without_bytes(ours.result), without_bytes(theirs.result[0]))
        both = [summaries(self.before, o.state) for o in (ours, theirs)]
        self._same(label, "summary", *both)
        self._same(label, "positions, rows of new files", ours.seen, theirs.seen)

    def _deleted(self, state: TableState) -> Json:
        return positions(state), rows_added(self.before, state)

    def dangling(self, arguments: dict[str, Any]) -> None:
        theirs = self._run(lambda: self.engine.call("remove_dangling", table=f"ice.db.{self.history.name}"))
        self._restore()
        ours = self._run(lambda: self._ours("remove-dangling-deletes", arguments))
        label = "remove_dangling_delete_files"
        if self._refused(label, theirs, ours):
            return
        self._same(label, "count", ours.result["removed_delete_files_count"], len(theirs.result))
        self._same(label, "delete files left", *(deletes_left(o.state) for o in (ours, theirs)))
        self._same(label, "summary", *(summaries(self.before, o.state) for o in (ours, theirs)))
        self._check_rows(label)

    def partition_statistics(self, arguments: dict[str, Any]) -> None:
        theirs, ours = self._both("compute_partition_stats", "compute-partition-stats", arguments, self._statistics)
        label = f"compute_partition_stats {arguments}"
        if self._refused(label, theirs, ours):
            return
        self._same(label, "rows", ours.seen, theirs.seen)
        ids = [{f["snapshot-id"] for f in o.state.metadata.get("partition-statistics", [])} for o in (ours, theirs)]
        self._same(label, "snapshots with statistics", *ids)

    def orphans(self, arguments: dict[str, Any]) -> None:
        theirs, ours = self._both("remove_orphan_files", "remove-orphan-files", arguments)
        label = f"remove_orphan_files {arguments}"
        if self._refused(label, theirs, ours):
            return
        self._same(label, "deleted files", self.files - ours.files, self.files - theirs.files)
        self._check_rows(label)

    def _both(
        self, procedure: str, service: str, arguments: dict[str, Any], see: Callable[[TableState], Json] | None = None
    ) -> tuple[Outcome, Outcome]:
        now = datetime.now(UTC)
        listed = "".join(f", {name} => {in_sql(value)}" for name, value in arguments.items())
        statement = f"CALL ice.system.{procedure}(table => 'db.{self.history.name}'{listed})"
        theirs = self._run(lambda: self.engine.sql(statement), see)
        self._restore()
        return theirs, self._run(lambda: self._ours(service, arguments, now), see)

    def _ours(self, service: str, arguments: dict[str, Any], now: datetime | None = None) -> Json:
        table = IcebergTable.open(str(self.history.root))
        options = dict(arguments.get("options", {}))
        options |= {k: in_option(v) for k, v in arguments.items() if k not in ("options", "where")}
        if service == "remove-orphan-files":
            options["lakemeta.allow-young"] = "true"
        plan = table.plan(service, options, arguments.get("where"), now=now)
        report = table.apply(Plan.loads(plan.dumps()))
        if report.failed or report.partial:
            self.troubles.append(f"{service} {arguments} was done in part: {report.to_json()}")
        return dict(report.result)

    def _statistics(self, state: TableState) -> Json:
        """The rows of each file of partition statistics, by snapshot."""
        found = {}
        for file in state.metadata.get("partition-statistics", []):
            path = re.sub(r"^file:(//)?(?=/)", "", file["statistics-path"])
            if path.endswith(".parquet"):  # others were made up
                rows = pq.read_table(path).to_pylist()
                found[file["snapshot-id"]] = sorted(json.dumps(row, default=str) for row in rows)
        return found

    def _run(self, call: Callable[[], Json], see: Callable[[TableState], Json] | None = None) -> Outcome:
        result, refusal = None, None
        try:
            result = call()
        except (EngineError, LakemetaError) as error:
            refusal = f"{type(error).__name__}: {error}"
        files = frozenset(name for name in self.history.names_of_files() if LEDGERS not in name)
        state = TableState.local(self.history.root)
        return Outcome(result, refusal, state, files, see(state) if see else None)

    def _refused(self, label: str, theirs: Outcome, ours: Outcome) -> bool:
        """True if there is nothing more to compare: both refused, or one did, which is a difference."""
        if theirs.refusal is None and ours.refusal is None:
            return False
        if theirs.refusal is None or ours.refusal is None:
            self.troubles.append(f"{label}: ours {ours.refusal or 'did it'}; Spark {theirs.refusal or 'did it'}"[:1500])
        elif words(ours.refusal.partition(": ")[2].partition("; ")[0])[:50] not in words(theirs.refusal):
            self.troubles.append(f"{label}: other words: {ours.refusal}; Spark {theirs.refusal[:400]}")
        self._same(label, "files after a refusal", ours.files, frozenset(self.files))
        return True

    def _check_rows(self, label: str) -> None:
        """The engine reads at every ref of our table what it held before."""
        refs = self.engine.metadata(self.history.name).get("refs", {})
        before = self.before.metadata.get("refs", {})
        for name, ref in refs.items():
            same = ref["snapshot-id"] == before[name]["snapshot-id"] or name == "main"
            self._same(label, f"ref {name} is where it was", same, True)
        if not refs:
            return
        was = {n: TableState(self.before.metadata_file, self._read_saved, before[n]["snapshot-id"]) for n in refs}
        self._same(label, "rows", self._rows(refs), {n: ids(state) for n, state in was.items() if ids(state)})

    def _read_saved(self, path: str) -> bytes:
        plain = re.sub(r"^file:(//)?(?=/)", "", path)
        return Path(plain.replace(str(self.history.root), str(self.saved), 1)).read_bytes()

    def _rows(self, refs: Json) -> dict[str, list[int]]:
        """The ids that Spark reads, by ref."""
        selects = [
            f"SELECT '{name}' AS ref, id FROM ice.db.{self.history.name} VERSION AS OF {ref['snapshot-id']}"
            for name, ref in refs.items()
        ]
        found: dict[str, list[int]] = {}
        for row in self.engine.sql(" UNION ALL ".join(selects)):
            found.setdefault(row["ref"], []).append(row["id"])
        return {name: sorted(rows) for name, rows in found.items()}

    def _same(self, label: str, what: str, ours: Any, theirs: Any) -> None:
        if ours == theirs:
            return
        if isinstance(ours, set | frozenset | Counter):
            more, less = set(ours) - set(theirs), set(theirs) - set(ours)
            self.troubles.append(
                f"{label}: {what}: ours alone {sorted(map(str, more))[:5]}, Spark's alone {sorted(map(str, less))[:5]}"
            )
        else:
            self.troubles.append(f"{label}: {what}: ours {str(ours)[:1200]}, Spark's {str(theirs)[:1200]}")


def words(refusal: str) -> str:
    """Without what is in numbers or brackets: of several ids that are wrong, chance says which one is named."""
    return re.sub(r"\d+|\[.*?\]", "", refusal.replace("file:///", "file:/"))


def in_sql(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}'"
    if isinstance(value, dict):
        return f"map({', '.join(f'{k!r}, {v!r}' for k, v in value.items())})"
    if isinstance(value, list):
        return f"array({', '.join(map(repr, value))})"
    return repr(value) if isinstance(value, str) else str(value).lower()


def in_option(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def snapshot_ids(state: TableState) -> list[int]:
    return [s["snapshot-id"] for s in state.metadata.get("snapshots", [])]


def unordered(field: str, metadata: Json) -> Json:
    """A field of metadata; the order of statistics is that of hashes in the engine."""
    value = metadata.get(field)
    return sorted(map(str, value or [])) if field.endswith("statistics") else value


def kinds(manifests: Json) -> Counter[Any]:
    return Counter((m.get("content") or 0, m["partition_spec_id"]) for m in manifests)


def one_each(sides: list[Json]) -> bool:
    """True if neither side wrote several manifests of a kind, among which chance spreads entries."""
    return all(max(kinds(side).values(), default=0) <= 1 for side in sides)


def stored(manifests: Json) -> Counter[Any]:
    """Entries as they are stored, with all numbers."""
    found: Counter[Any] = Counter()
    for manifest in manifests:
        data = Path(re.sub(r"^file:(//)?(?=/)", "", manifest["manifest_path"])).read_bytes()
        for entry in fastavro.reader(io.BytesIO(data)):
            file = entry["data_file"]
            numbers = (*(entry.get(name) for name in NUMBERS), *(file.get(name) or 0 for name in OF_FILE))
            found[(file["file_path"], *numbers)] += 1
    return found


def resolved(state: TableState, with_row_ids: bool) -> Counter[Any]:
    """Live entries with what they inherit."""
    names = [n for n in OF_FILE if with_row_ids or n != "first_row_id"]
    return Counter(
        (e["data_file"]["file_path"], *(e.get(n) for n in NUMBERS), *(e["data_file"].get(n) for n in names))
        for e in state.live(0, 1, 2)
    )


def summaries(before: TableState, after: TableState) -> list[dict[str, str]]:
    """Of new snapshots, but for the engine's name and sizes, which differ between writers."""
    known = set(snapshot_ids(before))
    new = [s for s in after.metadata["snapshots"] if s["snapshot-id"] not in known]
    return [{k: v for k, v in s["summary"].items() if k not in ENGINES and not k.endswith("-files-size")} for s in new]


def positions(state: TableState) -> dict[str, list[int]]:
    """Deleted positions of live files."""
    return {e["data_file"]["file_path"]: sorted(state._deleted_positions(e)) for e in state.live(0)}


def without_bytes(result: Json) -> Json:
    return {k: v for k, v in result.items() if "bytes" not in k}


def rows_added(before: TableState, after: TableState) -> list[Any]:
    known = set(before.paths(1))
    new = [e for e in after.live(1) if e["data_file"]["file_path"] not in known]
    files = [e for e in new if e["data_file"]["file_format"].upper() == "PARQUET"]
    return sorted([[row[PATH_ID], row[POSITION_ID]] for row in after._file_rows(e)] for e in files)


def deletes_left(state: TableState) -> list[Any]:
    return sorted((e["data_file"]["file_path"], e["data_file"].get("content_offset") or 0) for e in state.live(1, 2))


def ids(state: TableState) -> list[int]:
    """The ids of rows, as the checker reads them."""
    state.metadata = {**state.metadata, "format-version": 2}  # rows of an upgraded table may have no row ids yet
    return sorted(json.loads(row)["id"] for row in state.rows())
