"""Pages: what they hold, that nothing of a table becomes markup, how their script shows it, how they are written."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import OptionError
from lakemeta.finding import Finding
from lakemeta.page import writing
from lakemeta.page.content import of_findings, of_plan, of_simulation, of_table, wanted
from lakemeta.page.document import HEAD, document
from lakemeta.page.survey import Counts, Moment, Survey
from lakemeta.page.writing import check_place, write_page
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete, Expire, Keep, Operation, Rewrite, RewriteManifests
from lakemeta.simulation import Oldest, Outcome, Simulation

EVIL = "<i></script><!--<script>\"'&lt;\x00\x1b\u2028\u202e\udc80"
ELEMENTS = ["html", "head", "meta", "meta", "meta", "meta", "title", "style", "body", "h1", "main", "noscript"]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the page's script")


class Parsed(HTMLParser):
    """The elements of a page and the text in each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.comments: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes.append(dict(attrs))
        self.texts.setdefault(tag, []).append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[self.elements[-1]][-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def survey(files: dict[tuple[str, str], int], *moments: Moment) -> Survey:
    counts = Counts()
    for (partition, path), size in files.items():
        counts.add(partition, size)
        counts.sizes[path] = size
    return Survey(counts, moments, "files")


def plan(kind: str, *operations: Operation, **facts: object) -> Plan:
    return Plan(PlanHeader(kind, "t", 2, None, {}, facts), operations)


def rewrite(*inputs: str, size: int, into: int) -> Rewrite:
    return Rewrite(0, {"a": 1}, 0, inputs, (), size, into)


def hostile() -> dict[str, Any]:
    found = survey({(EVIL, "f"): 5}, Moment(EVIL, 0, EVIL, 1, 5, (EVIL,)))
    return of_plan(EVIL, [(EVIL, EVIL)], found, plan("hudi.clean", Delete(EVIL, EVIL, 5, EVIL, EVIL)))


def shown(path: Path, *words: str) -> dict[str, Any]:
    """What the script of a page shows, before and after searches."""
    command = ["node", str(Path(__file__).with_name("dom.cjs")), str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


TOKENS = (
    "<b>",
    "</script>",
    "<script>",
    "<!--",
    "-->",
    "]]>",
    "<",
    ">",
    "&lt;",
    '"',
    "'",
    "\\u003c",
    "\udc80",
    "\u2028",
)


@given(st.lists(st.one_of(st.sampled_from(TOKENS), st.characters())).map("".join))
def test_texts_stay_texts(text: str) -> None:
    """Whatever a name holds, the page has the same elements, and its data is what was given."""
    content = of_table(text, [(text, text)], survey({(text, text): 1}, Moment(text, None, text, 0, 0)))
    page = "".join(document(content))
    page.encode()
    parsed = Parsed(page)
    assert parsed.elements == [*ELEMENTS, "script", "script"]
    assert json.loads(parsed.texts["script"][0]) == json.loads(json.dumps(content))


def test_hostile_names_are_no_markup() -> None:
    """Of every field of a plan, its title, facts, partitions and moments."""
    parsed = Parsed("".join(document(hostile())))
    assert parsed.elements == [*ELEMENTS, "script", "script"]
    assert json.loads(parsed.texts["script"][0]) == hostile()
    assert parsed.comments == [" a page of lakemeta, 1 "]
    assert parsed.texts["title"][0].startswith("<i></script><!--<script>\"'&lt;\\x00\\x1b\\u2028\\u202e\\udc80")


def test_the_policy_lets_only_its_own_script_run() -> None:
    """By hash; nothing is loaded, and nothing in the page names another place."""
    parsed = Parsed("".join(document(hostile())))
    (policy,) = [a["content"] or "" for a in parsed.attributes if a.get("http-equiv") == "Content-Security-Policy"]
    for kind, text in (("style", parsed.texts["style"][0]), ("script", parsed.texts["script"][1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not [a for a in parsed.attributes if "src" in a or "href" in a]
    assert "prefers-color-scheme: dark" in parsed.texts["style"][0]


def test_sizes_after_a_rewrite() -> None:
    """Inputs leave their bins, outputs come as equal parts; other files stay."""
    found = survey({("a=1", "x"): 100, ("a=1", "y"): 100, ("a=1", "z"): 1000})
    content = of_plan("t", [], found, plan("iceberg.rewrite-data-files", rewrite("x", "y", size=200, into=1)))
    assert content["sizes"] == {"now": [[7, 2], [10, 1]], "going": [[7, 2]], "after": [[8, 1], [10, 1]]}
    assert content["partitions"] == [["a=1", 3, 1200, 2, 200]]
    assert wanted(plan("iceberg.rewrite-data-files", rewrite("x", "y", size=200, into=1))) == {"x", "y"}
    texts, columns = content["operations"]["texts"], content["operations"]["columns"]
    assert [texts[n] for n in columns[0]] == ["rewrite", "rewrite"]
    assert columns[2:4] == [["x", "y"], [100, 100]]
    assert texts[columns[4][0]] == "group 0, 2 files into 1 file"


def test_sizes_after_a_clean() -> None:
    """What goes leaves its bin; what stays for another reason is no change."""
    found = survey(
        {("p", "x"): 100, ("p", "y"): 90},
        Moment("20260801000000000", None, "commit", 1, 100),
        Moment("20260801000000001", None, "commit", 1, 90),
    )
    cleaned = plan(
        "hudi.clean",
        Delete("p", "p/x", 100, "superseded"),
        Keep("p", "p/y", 90, "latest"),
        earliest_to_retain="20260801000000001",
    )
    content = of_plan("t", [], found, cleaned)
    assert content["sizes"] == {"now": [[7, 2]], "going": [[7, 1]], "after": [[7, 1]]}
    assert content["partitions"] == [["p", 2, 190, 1, 100]]
    assert [row[6] for row in content["moments"]] == [2, 0]


def test_files_of_old_snapshots_are_not_among_those_now() -> None:
    """So there is no size after; what expires is marked."""
    found = survey({("", "x"): 100}, Moment("7", 0, "append", 1, 1), Moment("8", 1, "append", 1, 1))
    expire = plan("iceberg.expire-snapshots", Expire(7, 0, 1, 50, "too_old"), Delete("", "old", 50, "data", "7"))
    content = of_plan("t", [], found, expire)
    assert content["sizes"] == {"now": [[7, 1]], "going": [[6, 1]]}
    assert [row[6] for row in content["moments"]] == [1, 0]
    unknown = of_plan("t", [], found, plan("iceberg.rewrite-position-deletes", rewrite("d", size=5, into=1)))
    assert unknown["sizes"] == {"now": [[7, 1]]}
    manifests = plan("iceberg.rewrite-manifests", RewriteManifests(0, "data", ["m1", "m2"], 9, 1))
    assert of_plan("t", [], found, manifests)["operations"]["columns"][2] == ["m1", "m2"]


@needs_node
def test_the_script_shows_texts(tmp_path: Path) -> None:
    """What does not show, or turns the text around, is spelled out."""
    path = tmp_path / "page.html"
    write_page(path, hostile())
    found = shown(path)
    spelled = "<i></script><!--<script>\"'&lt;\\u0000\\u001b\\u2028\\u202e\\udc80"
    assert found["operations"] == [f"{spelled}delete 5 B · {spelled} · by {spelled}"]
    assert found["partitions"] == [f"{spelled}1 file, 5 B · 1 file, 5 B change"]
    assert spelled in found["moments"][0]


@pytest.mark.slow
@needs_node
def test_many_operations(tmp_path: Path) -> None:
    """Rows are made as they come into view, the last one too; a search finds one in 100,000."""
    path = tmp_path / "page.html"
    files = (
        Delete(f"p{n % 7}", f"p{n % 7}/file-{n:06d}", n, "superseded" if n % 2 else "replaced") for n in range(10**5)
    )
    write_page(path, of_plan("t", [], survey({}), plan("hudi.clean", *files)))
    found = shown(path)
    assert found["nodes"] < 1000
    assert len(found["operations"]) < 30
    assert found["end"].startswith("p6/file-099994")
    said, rows = shown(path, "FILE-012345 superseded")["searched"][0]
    assert said == "1 of 100,000, 12.1 KiB"
    assert rows == ["p4/file-012345delete 12.1 KiB · superseded"]
    assert shown(path, "file-012345 replaced")["searched"] == [["0 of 100,000, 0 B", []]]


@needs_node
def test_pictures(tmp_path: Path) -> None:
    """Bars before and after, a timeline with what goes, and the outcomes of a simulation with their oldest points."""
    path = tmp_path / "page.html"
    found = survey({("a=1", "x"): 100, ("a=1", "y"): 100}, Moment("7", 0, "append", 2, 200, ("main",)))
    write_page(path, of_plan("t", [], found, plan("iceberg.rewrite-data-files", rewrite("x", "y", size=200, into=1))))
    page = shown(path)
    assert [kind for kind, _ in page["sizes"]] == ["now", "after"]
    assert page["timeline"] == [["now", "1970-01-01 00:00:00 UTC 7 append: 2 files, 200 B main"]]
    outcomes = (Outcome("5", 3, 2048, snapshots=2, oldest=Oldest("7", 0)), Outcome("x", refused="no number"))
    done = Simulation("t", "expire-snapshots", "retain_last", outcomes)
    write_page(path, of_simulation("t", [], found, done))
    text = shown(path)["text"]
    assert "What if retain_last were ..." in text
    assert "3 files, 2.0 KiB · 2 snapshots expire · oldest readable: 7 (1970-01-01 00:00:00 UTC)" in text
    assert "xrefused: no number" in text


@needs_node
def test_findings(tmp_path: Path) -> None:
    """Each with how bad it is; none is said, too."""
    path = tmp_path / "page.html"
    write_page(
        path, of_findings("t", [], survey({}), [Finding("lost", "wrong", EVIL), Finding("x", "blocks", "a lock")])
    )
    text = shown(path)["text"]
    assert "Wrong <i></script>" in text
    assert "Blocks cleaning a lock" in text
    write_page(path, of_findings("t", [], survey({}), []))
    assert "Nothing to report: the table is clean." in shown(path)["text"]


@needs_node
def test_a_plan_that_takes_every_file(tmp_path: Path) -> None:
    """Nothing is left after it, which is said."""
    path = tmp_path / "page.html"
    write_page(path, of_plan("t", [], survey({("p", "x"): 5}), plan("hudi.clean", Delete("p", "x", 5, "dropped"))))
    assert "now: 1 fileafter the plan: 0 files" in shown(path)["text"]


@needs_node
def test_an_empty_table(tmp_path: Path) -> None:
    """It has a page, too."""
    path = tmp_path / "page.html"
    write_page(path, of_plan("t", [], survey({}), plan("hudi.clean")))
    assert "Nothing to do." in shown(path)["text"]


def test_only_pages_are_replaced(tmp_path: Path) -> None:
    """Another file, a directory or a missing directory is refused in a sentence, with nothing written."""
    page = tmp_path / "page.html"
    write_page(page, hostile())
    write_page(page, of_table("new", [], survey({})))
    assert "<title>new</title>" in page.read_text()
    link = tmp_path / "link.html"
    link.symlink_to(page)
    write_page(link, of_table("newer", [], survey({})))
    assert link.is_symlink()
    assert "<title>newer</title>" in page.read_text()
    mine = tmp_path / "mine.html"
    for text in ("", "<!doctype html>\n<p>mine", HEAD[:-1]):
        mine.write_text(text)
        with pytest.raises(OptionError, match="is there and is no page of lakemeta; give another name, or remove it"):
            write_page(mine, hostile())
        assert mine.read_text() == text
    with pytest.raises(OptionError, match="cannot be written"):
        check_place(tmp_path)
    with pytest.raises(OptionError, match="there is no directory"):
        check_place(tmp_path / "none" / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "mine.html", "page.html"]


@pytest.mark.parametrize("step", ["document", "replace"])
def test_an_interrupted_page_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whole, with nothing beside it, whether it is interrupted while it is made or before it is moved to its place."""
    page = tmp_path / "page.html"
    write_page(page, hostile())
    before = page.read_bytes()

    def broken(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing if step == "document" else Path, step, broken)
    with pytest.raises(KeyboardInterrupt):
        write_page(page, of_table("new", [], survey({})))
    assert page.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_place_that_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a sentence."""

    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OptionError, match=r"the page cannot be written to .*No space left on device"):
        write_page(tmp_path / "page.html", hostile())
    assert not list(tmp_path.iterdir())
