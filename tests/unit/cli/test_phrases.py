"""Reports and facts as people read them: counts, sizes, dates and words."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from lakemeta.cli import output
from lakemeta.cli.phrases import dated, middle_cut, name_of, seconds, value_of
from lakemeta.cli.report_text import report_lines
from lakemeta.report import Report
from lakemeta.words import human_change, some

REWRITE = {
    "rewritten_data_files_count": 24,
    "added_data_files_count": 3,
    "rewritten_bytes_count": 45670,
    "failed_data_files_count": 0,
    "removed_delete_files_count": 2,
}
DELETES = {"rewritten_delete_files_count": 2, "added_delete_files_count": 1, "rewritten_bytes_count": 9}
CLEAN = {"start_clean_time": "1", "total_files_deleted": 8, "earliest_commit_to_retain": "20260801012016000"}


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (
            Report("iceberg.rewrite-data-files", "/t", "17", result=REWRITE, written_bytes=11776, duration_ms=312),
            ["24 -> 3 files, 44.6 -> 11.5 KiB in 0.3 s", "removed delete files: 2"],
        ),
        (
            Report("iceberg.rewrite-position-deletes", "/t", "17", result={**DELETES, "added_bytes_count": 2048}),
            ["2 -> 1 delete file, 9 B -> 2.0 KiB"],
        ),
        (
            Report("iceberg.rewrite-manifests", "/t", "17", result={
                "rewritten_manifests_count": 9, "added_manifests_count": 1}, duration_ms=65_000),
            ["9 -> 1 manifest in 1 min 5 s"],
        ),
        (
            Report("hudi.clean", "/t", "20260801030000000", 8, 1, 1024, result=CLEAN, duration_ms=20),
            [
                "8 files deleted (1 were gone already), 1.0 KiB freed in 0.02 s",
                "earliest commit to retain: 20260801012016000 (2026-08-01 01:20:16)",
            ],
        ),
        (Report("x", "/t", None, result={"cleans": ["1"], "none": None, "no": 0, "empty": []}), []),
        (Report("x", "/t", None, result={"cleans": ["1", "2"]}), ["cleans: 1, 2"]),
    ],
)  # fmt: skip
def test_a_report_in_sentences(report: Report, lines: list[str]) -> None:
    """What was done comes first, nothing that is none, no name in snake case."""
    head, *found = report_lines(report)
    assert found == [f"  {line}" for line in lines]
    assert head.startswith(f"{report.plan} of /t")
    assert "_" not in "".join(found)


VALUES: list[tuple[str, Any, str]] = [
    ("last_updated_ms", 1_785_548_400_000, "2026-08-01 01:40:00 UTC"),
    ("last_updated_ms", 1 << 80, f"{1 << 80} ms"),
    ("bytes", 2048, "2.0 KiB"),
    ("current_snapshot_id", 17_000_000, "17000000"),
    ("version", 2026, "2026"),
    ("records", 1080, "1,080"),
    ("savepoints", ("20260801012016000",), "20260801012016000 (2026-08-01 01:20:16)"),
    ("pending", ("20260801012016 clean",), "20260801012016 (2026-08-01 01:20:16) clean"),
    ("first", "20269901012016000", "20269901012016000"),
    ("tags", (), "none"),
    ("actions", {"commit": 2}, "commit 2"),
    ("complete", True, "True"),
    ("x", None, "none"),
    ("files", [f"f{n}" for n in range(42)], ", ".join(f"f{n}" for n in range(40)) + " and 2 more"),
]


@pytest.mark.parametrize(("name", "value", "words"), VALUES)
def test_values(name: str, value: Any, words: str) -> None:
    """Bytes in units, times as dates, instants with the date that they stand for."""
    assert value_of(name, value) == words


def test_small_phrases() -> None:
    """Names, durations, pairs of sizes, first names and how many more."""
    assert name_of("deleted_data_files_count") == "deleted data files"
    assert name_of("last_updated_ms") == "last updated"
    assert [seconds(ms) for ms in (20, 312, 9_949, 12_000, 185_000)] == [
        "0.02 s",
        "0.3 s",
        "9.9 s",
        "12 s",
        "3 min 5 s",
    ]
    assert human_change(45670, 11776) == "44.6 -> 11.5 KiB"
    assert human_change(5 << 20, 11776) == "5.0 MiB -> 11.5 KiB"
    assert dated("v13.metadata.json") == "v13.metadata.json"
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"
    assert some(["a", "b"], 2) == "a, b"


@pytest.mark.parametrize("room", [10, 31, 90, 99])
def test_a_path_is_cut_in_the_middle(room: int) -> None:
    """It has the room it was given, its beginning, and more of its end, which is what differs."""
    path = "region=north/" + "0123456789" * 8 + ".parquet"
    cut = middle_cut(path, room)
    assert len(cut) <= room or cut == path == middle_cut(path, len(path))
    assert cut == path or (cut[:2] == path[:2] and cut[-4:] == path[-4:] and "…" in cut)


def test_rows_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes is red, what stays is green; and long paths leave room for the rest of a narrow one."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    rows = [("delete", "p/" + "x" * 90 + ".parquet", "1 B"), ("keep", "p/y", "1 B")]
    output.table("", ("action", "path", "bytes"), rows)
    assert Console(file=stream).is_terminal
    assert "\x1b[31m" in stream.getvalue()
    assert "\x1b[32m" in stream.getvalue()
    assert "…" in stream.getvalue()
    assert "x.parquet" in stream.getvalue()
