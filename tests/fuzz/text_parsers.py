"""The functions of lakemeta that read text: names of files, times, URLs, filters, values, options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lakemeta import moments, paths
from lakemeta.cli import options as cli
from lakemeta.errors import LakemetaError
from lakemeta.fleet.config import Surroundings, parse_config
from lakemeta.fleet.memory import parse_memory
from lakemeta.fleet.policies import parse_policies
from lakemeta.hudi.files import names
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.rollback.requests import parse_marker
from lakemeta.hudi.timeline import archive, instants
from lakemeta.iceberg.delete_rewrite.convert import ConvertOptions
from lakemeta.iceberg.delete_rewrite.options import PositionDeleteOptions
from lakemeta.iceberg.duties import DUTIES
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifest_rewrite.options import ManifestOptions
from lakemeta.iceberg.orphans import uris
from lakemeta.iceberg.orphans.options import OrphanOptions
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.split_combine import SplitCombineOptions
from lakemeta.iceberg.spec import schema, transforms, values
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import DecimalType, FixedType, NestedField, primitive_from_name
from lakemeta.maintenance import steps
from lakemeta.storage import open_storage
from lakemeta.storage.s3 import s3fs_arguments

if TYPE_CHECKING:
    from fuzz.parsers import Parser

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

WHERE = "/t/of a stranger"


def text_parsers(of: Callable[..., Parser], metadata: TableMetadata) -> list[Parser]:
    """All of them; ``of`` makes a parser of a name, texts to start from and a function of text."""
    failing = {"raises": (ValueError,)}
    return [
        of("instant name", _INSTANTS, lambda t: instants.parse_instant(t, 5)),
        of("base file name", _NAMES, lambda t: (names.parse_base_file(t, 1), names.parse_log_file(t, 1))),
        of("archive name", [".commits_.archive.1_1-0-1"], archive.is_archive_file),
        of("marker", ["p1/a_1-0-1_20260101000000000.parquet.marker.MERGE"], lambda t: parse_marker(t, WHERE)),
        of("where", _FILTERS, lambda t: parse_where(t, _SCHEMA)),
        of("iso time", _TIMES, moments.utc_moment, **failing),
        of("--now", _TIMES, cli.moment),
        of("--set", ["hoodie.clean.commits.retained=5", "a=b\nb=c"], lambda t: cli.pairs(t.split("\n"), "--set")),
        of("url", _URLS, paths.split_scheme, **failing),
        of("paths.inside", _URLS, _inside),
        of("table url", _URLS, open_storage),
        of("location", _URLS, lambda t: (store_path("s3", t), uris.split_location(t))),
        of("type", _TYPES, schema.type_from_json, raises=(ValueError, TypeError, KeyError)),
        of("transform", ["bucket[16]", "truncate[4]", "identity"], transforms.Transform.parse, **failing),
        of("name mapping", ['[{"field-id": 1, "names": ["a"]}]'], schema.name_mapping_from_json, **failing),
        of("value", ["\0", "\0\1\2\3", "12345678", "0123456789abcdef"], _values),
        of("value from json", ["2020-01-01", "10:00:00.5", "0aff", "1.20", "12"], _json_values),
        *(of(f"options of {n}", [_OPTIONS[n]], partial(_optioned, p)) for n, p in _option_parsers(metadata)),
        of("storage options", _STORAGE, partial(_optioned, s3fs_arguments)),
        of("file of a run", [_RUN], lambda t: parse_config(t, WHERE, _AROUND).of("/lake/gold/t")),
        of("policies", [_POLICIES], lambda t: parse_policies(t, WHERE, _KNOWN, 1_790_000_000_000)),
        of("memory of runs", [_MEMORY], lambda t: parse_memory(t, WHERE)),
    ]


def _inside(text: str) -> object:
    for root in ("/t", "s3://b/t", "b/t", "memory://t"):
        with suppress(LakemetaError):
            paths.inside(root, text)
    return None


def _option_parsers(metadata: TableMetadata) -> list[tuple[str, Callable[[dict[str, str]], object]]]:
    nothing: Any = None

    def maintained(options: dict[str, str]) -> object:
        return steps(DUTIES, nothing, nothing, settings=options, at_least=options, skip=options)

    return [
        ("clean", CleanOptions.parse),
        ("convert-equality-deletes", ConvertOptions.parse),
        ("rewrite-position-deletes", lambda o: PositionDeleteOptions.parse(o, metadata)),
        ("expire-snapshots", ExpireOptions.parse),
        ("remove-orphan-files", lambda o: OrphanOptions.parse(o).cutoff(1_700_000_000_000)),
        ("rewrite-data-files", JobOptions.parse),
        ("bin-pack", lambda o: RewriteOptions.parse(o, metadata)),
        ("split-combine", lambda o: SplitCombineOptions.parse(o, metadata)),
        ("rewrite-manifests", lambda o: ManifestOptions.parse(o, metadata)),
        ("maintain", maintained),
    ]


def _optioned(parse: Callable[[dict[str, str]], object], text: str) -> object:
    """An option by itself, and all together; a line is KEY=VALUE."""
    given = dict(line.partition("=")[::2] for line in text.split("\n"))
    for some in [*({key: value} for key, value in given.items()), given]:
        with suppress(LakemetaError):
            parse(some)
    return None


_KNOWN = {service: {name: name for name in ("older_than", "retain_last")} for service in ("expire-snapshots", "clean")}
_KNOWN.update({service: {"spec_id": "spec_id"} for service in ("rewrite-manifests", "rewrite-data-files")})
_AROUND = Surroundings(_KNOWN, 1_790_000_000_000, lambda glob: glob, lambda _: _POLICIES)
_RUN = """tables = ["/lake/**", "s3://lake/*"]
policies = ["p.json"]
budget = {bytes = "1GiB", minutes = 1.5}
[schedule]
shortest-hours = 2
[service.expire-snapshots]
older_than = "7d"
retain_last = 5
[[override]]
tables = ["/lake/gold/**"]
[override.service.expire-snapshots]
older_than = 2026-01-01T00:00:00Z
"""
_POLICIES = """[{"name": "p", "type": "system.snapshot-expiry", "content": {"version": "2025-02-03", "enable": true,
"config": {"min_snapshot_to_keep": 1, "max_snapshot_age_days": 2, "max_ref_age_days": 3}}},
{"policy-type": "system.metadata-compaction", "content": "{\\"enable\\": false, \\"config\\": {\\"spec_id\\": 1}}"}]"""
_MEMORY = """{"visit":"/a","at":17,"hours":24.0,"code":3,"left":false,"files":1,"bytes":7}
{"run":"abc","at":18}
{"visit":"/b","at":19,"hours":48.0,"code":0,"left":true,"files":0,"bytes":0}
{"ended":20}
"""
_TYPES = ("decimal(9, 2)", "fixed[4]", "long", "timestamptz_ns", "uuid", "geometry(srid:4326)")
_KINDS = [primitive_from_name(n) for n in ("int", "long", "double", "date", "timestamptz", "string", "uuid", "binary")]


def _values(text: str) -> object:
    data = text.encode("utf-8", "surrogateescape")
    for kind in (*_KINDS, DecimalType(9, 2), FixedType(4)):
        with suppress(LakemetaError):
            values.to_json(kind, values.from_bytes(kind, data))
    return None


def _json_values(text: str) -> object:
    for kind in (*_KINDS, DecimalType(9, 2), FixedType(4)):
        with suppress(LakemetaError):
            values.from_json(kind, text)
    return None


_SCHEMA = Schema(
    tuple(
        NestedField(i, name, primitive_from_name(kind))
        for i, (name, kind) in enumerate(
            [("id", "long"), ("p", "string"), ("v", "double"), ("d", "date"), ("t", "timestamptz"), ("b", "boolean")], 1
        )
    )
)
_FILTERS = (
    "id > 3 and (p = 'a' or v <= 1.5e3)",
    "d between date '2020-01-01' and '2021-01-01' or t < timestamp '2020-01-01 10:00:00+01:00'",
    "not p like 'a%' and p in ('a', \"b\", 'c\\'d') and v is not nan and b = true and id <=> null",
    "((((id = -5))))",
    "`id` != 0x10 or id = 7L or v = 1.5D",
)
_TIMES = ("2026-08-01T10:00:00Z", "2026-08-01", "20260801T100000.123456+0130", "2026-W05-1")
_URLS = (
    "s3a://b/t/data/a b%20#?.parquet", "/t/x/../y", "file:///t/x", "file:/t", "memory://t/x", "b/t/x", "s3://user@b:80/t",
    "abfss://c@a.dfs.core.windows.net/t/x", "hdfs://nn:8020/t/x", "gs://b/t/x", "catalog://c/a.b", "C:\\t", "",
)  # fmt: skip
_INSTANTS = (
    "20260101000000000.commit", "20260101000000000_20260101000000001.deltacommit", "20260101000000.clean.requested",
    "20260101000000000.inflight", "20260101000000000002.rollback", "20260101000000000.compaction.inflight",
)  # fmt: skip
_NAMES = (
    "a-0_0-1-1_20260101000000000.parquet", ".a-0_20260101000000000.log.1_0-1-1", ".a_20260101000000.log.12",
    ".a-0_20260101000000000.log.1_0-1-1.cdc", "x_y_z_20260101000000000.hfile",
)  # fmt: skip
_OPTIONS = {
    "clean": "hoodie.clean.policy=KEEP_LATEST_COMMITS\nhoodie.clean.commits.retained=10\n"
    "hoodie.clean.hours.retained=24\nhoodie.clean.partition.filter.regex=p.*\nhoodie.clean.incremental.enabled=false\n"
    "hoodie.table.timeline.timezone=UTC\n"
    "hoodie.write.lock.storage.validity.timeout.secs=300",
    "convert-equality-deletes": "max-concurrent-file-group-rewrites=2\nrewrite-all=true",
    "rewrite-position-deletes": "target-file-size-bytes=1000\nmin-input-files=2\nrewrite-job-order=bytes-asc",
    "expire-snapshots": "older_than=2026-01-01T00:00:00Z\nretain_last=5\nsnapshot_ids=1,2,3\nmax_concurrent_deletes=4\n"
    "cleanup-level=all",
    "remove-orphan-files": "older_than=1700000000000\nlocation=/t/data\nequal_schemes=s3a,s3\nequal_authorities=a,b\n"
    "prefix_mismatch_mode=ERROR",
    "rewrite-data-files": "strategy=sort\nsort_order=zorder(id, p)\npartial-progress.enabled=true\n"
    "partial-progress.max-commits=3",
    "bin-pack": "target-file-size-bytes=134217728\nmin-input-files=5\ndelete-ratio-threshold=0.3\nrewrite-all=true",
    "split-combine": "planner=split-combine\nread.split.target-size=1000000",
    "rewrite-manifests": "spec_id=0\nuse_caching=true\nsort_by=p\nlakemeta.all-specs=true",
    "maintain": "expire-snapshots.retain_last=5\nrewrite-data-files=3",
}
_STORAGE = (
    's3.endpoint=http://127.0.0.1\ns3.region=x\nclient_kwargs={"region_name": "x"}\nanon=true',
    's3.path-style-access=true\nconfig_kwargs={"s3": {"addressing_style": "path"}}\nkey=a\ns3.access-key-id=b',
)
