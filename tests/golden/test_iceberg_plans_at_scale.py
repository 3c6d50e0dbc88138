"""Plans of a table of 100 000 files, made anew from a recipe, against digests of what real Iceberg 1.12 planned."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.iceberg_values import added, spec, table

from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.entries import DataFile, FileContent, ManifestFile
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions, plan_groups
from lakemeta.iceberg.scan.file_tasks import plan_files
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import LONG, STRING, NestedField

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.manifests.entries import ManifestEntry

pytestmark = pytest.mark.slow

RECORDED = json.loads((Path(__file__).parent / "data" / "iceberg_scale.json").read_text())
METADATA = table(spec((2, "identity")), schema=Schema((NestedField(1, "id", LONG), NestedField(2, "p", STRING))))


@cache
def manifests() -> list[list[ManifestEntry]]:
    """The entries of every manifest, as the recipe draws them: skewed partitions, sizes from 64 KiB to 1 GiB."""
    recipe = RECORDED["recipe"]
    numbers, files = random.Random(recipe["seed"]), recipe["files"]
    numbers.getrandbits(62)  # the snapshot id
    weights = [1.0 / (i + 1) for i in range(recipe["parts"])]
    partitions = numbers.choices([f"p{i:05}" for i in range(recipe["parts"])], weights=weights, k=files)
    numbers.shuffle(partitions)
    size = files // recipe["manifests"]
    made = []
    for first in range(0, files, size):
        made.append([added(data_file(i, partitions[i], numbers)) for i in range(first, first + size)])
        numbers.getrandbits(128)  # the manifest's name
    return [made[i] for i in RECORDED["manifests"]]


def data_file(number: int, partition: str, numbers: random.Random) -> DataFile:
    size = int(2 ** numbers.uniform(16, 30))
    low, high = (struct.pack("<q", number * 1000 + i) for i in (0, 999))
    return DataFile(
        FileContent.DATA,
        f"/warehouse/t/data/p={partition}/{number}-{numbers.getrandbits(128):x}.parquet",
        "PARQUET",
        0,
        (partition,),
        record_count=size // 100,
        file_size_in_bytes=size,
        value_counts={1: size // 100},
        null_value_counts={1: 0},
        lower_bounds={1: low},
        upper_bounds={1: high},
    )


def read(listed: Sequence[ManifestFile], _: Any) -> Iterator[list[ManifestEntry]]:
    return (manifests()[int(manifest.manifest_path)] for manifest in listed)


@pytest.mark.parametrize("plan", RECORDED["plans"], ids=lambda p: json.dumps(p["options"] | {"where": p["where"]}))
def test_100_000_files_are_planned_as_the_engine_plans_them(plan: dict[str, Any]) -> None:
    """The same groups: partition, number of files, bytes, expected outputs, split and output size."""
    lines = [ManifestFile(str(i), 1, 0, sequence_number=1) for i in range(len(manifests()))]
    tasks = plan_files(METADATA, lines, read, parse_where(plan["where"] or "true", METADATA.schema))
    groups = plan_groups(METADATA, tasks, RewriteOptions.parse(plan["options"], METADATA))
    shapes = [
        [*g.partition, len(g.tasks), g.bytes, g.expected_outputs, g.split_size, g.max_output_size] for g in groups
    ]
    assert (len(groups), sum(len(g.tasks) for g in groups)) == (plan["groups"], plan["files"])
    assert hashlib.sha256("\n".join(sorted(map(json.dumps, shapes))).encode()).hexdigest() == plan["sha256"]
