from __future__ import annotations

import itertools
import pickle
import re
import sys
from typing import TYPE_CHECKING

import pytest
from contract.s3_server import S3Server, error, is_bulk_delete, is_put, s3_server, times
from contract.storage_contract import StorageContract, put
from werkzeug.wrappers import Response

from lakemeta.errors import OptionError, PathExistsError, StorageError, UnsupportedFeatureError
from lakemeta.storage import objects, open_storage
from lakemeta.storage.backoff import Backoff
from lakemeta.storage.s3 import s3fs_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from werkzeug.wrappers import Request

    from lakemeta.storage.s3 import S3Storage

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with s3_server("lake") as server:
        yield server


@pytest.fixture
def server(running: S3Server) -> Iterator[S3Server]:
    running.reset()
    yield running
    running.reset()


@pytest.fixture
def root() -> str:
    return f"lake/contract-{next(_NUMBERS)}"  # every server in a process shares its buckets


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds we would have slept between attempts."""
    slept: list[float] = []
    monkeypatch.setattr(objects, "BACKOFF", Backoff(lambda: sum(slept), slept.append, lambda: 1.0))
    return slept


@pytest.fixture(scope="module")
def connected(running: S3Server) -> S3Storage:
    storage, path = open_storage("s3://lake/first", running.options)
    storage.create(path, b"")
    return storage


@pytest.fixture
def storage(server: S3Server, connected: S3Storage) -> S3Storage:
    return connected


class TestS3Storage(StorageContract):
    pass


def test_2500_keys_are_three_requests(server: S3Server, storage: S3Storage, root: str) -> None:
    """Deletes go 1000 keys a request, and every path has its outcome."""
    put(storage, f"{root}/0", f"{root}/1700", f"{root}/2499")
    server.requests.clear()
    paths = [f"{root}/{n}" for n in range(2500)]
    outcomes = storage.delete_many(paths)
    assert [o.path for o in outcomes] == paths
    assert all(o.done for o in outcomes)
    assert [(method, query) for method, _, query in server.requests] == [("POST", "delete")] * 3
    assert not storage.exists(root)


def test_listings_go_on_over_all_pages(storage: S3Storage, server: S3Server, root: str) -> None:
    """A listing of several pages is complete."""
    put(storage, *(f"{root}/d{n}/a" for n in range(7)), f"{root}/z")
    listed = []

    def small_pages(request: Request) -> None:
        if request.method == "GET" and "list-type" in request.args:
            listed.append(request.args.get("continuation-token"))
            request.environ["QUERY_STRING"] += "&max-keys=3"

    server.faults.append(small_pages)
    assert len(list(storage.walk(root))) == 8
    assert len(listed) == 3
    assert [e.name for e in storage.list_dir(root)] == [*(f"d{n}" for n in range(7)), "z"]
    storage.delete_tree(root)
    assert not storage.exists(root)


def test_a_listing_that_fails_part_way_raises(storage: S3Storage, server: S3Server, root: str) -> None:
    """A second page that does not come fails the listing."""
    put(storage, *(f"{root}/{n}" for n in range(5)))

    def second_page_denied(request: Request) -> Response | None:
        if "continuation-token" in request.args:
            return error(403, "AccessDenied")
        request.environ["QUERY_STRING"] += "&max-keys=3"
        return None

    server.faults.append(second_page_denied)
    for listing in (storage.walk, storage.list_dir):
        with pytest.raises(StorageError, match=re.escape(root)):
            list(listing(root))


def test_directory_markers_are_no_files(storage: S3Storage, root: str) -> None:
    """An object whose key ends with a slash marks an empty directory: listed as such, removed with its tree."""
    storage.fs.call_s3("put_object", Bucket="lake", Key=f"{root[5:]}/d/", Body=b"")
    assert [(e.path, e.is_dir) for e in storage.list_dir(root)] == [(f"{root}/d", True)]
    assert storage.list_dir(f"{root}/d") == []
    assert list(storage.walk(root)) == []
    assert storage.exists(f"{root}/d")
    storage.delete_tree(f"{root}/d")
    assert not storage.exists(root)


def test_only_throttled_keys_are_deleted_again(
    storage: S3Storage, server: S3Server, root: str, waits: list[float]
) -> None:
    """What the service had no time for is asked again, after a pause; the rest is not, and a refusal stays."""
    asked: list[list[str]] = []

    def partly(request: Request) -> Response | None:
        if not is_bulk_delete(request):
            return None
        keys = re.findall(r"<Key>(.*?)</Key>", request.get_data(as_text=True))
        asked.append([key[-1] for key in keys])
        codes = {"2": "SlowDown", "3": "AccessDenied", "4": "InternalError" if len(asked) < 3 else ""}
        errors = [(key, codes[key[-1]]) for key in keys if codes.get(key[-1]) and not (key[-1] == "2" and asked[1:])]
        body = "".join(f"<Error><Key>{k}</Key><Code>{c}</Code><Message>no</Message></Error>" for k, c in errors)
        return Response(f"<DeleteResult>{body}</DeleteResult>", content_type="application/xml")

    server.faults.append(partly)
    outcomes = storage.delete_many([f"{root}/{n}" for n in range(5)])
    assert asked == [["0", "1", "2", "3", "4"], ["2", "4"], ["4"]]
    assert [o.status for o in outcomes] == ["deleted", "deleted", "deleted", "failed", "deleted"]
    assert outcomes[3].error == "AccessDenied: no"
    assert len(waits) == 2
    assert waits[0] <= 0.1
    assert waits[1] <= 0.2


def test_attempts_end(storage: S3Storage, server: S3Server, root: str, waits: list[float]) -> None:
    """A key the service never has time for is a failed outcome, and leaves delete_tree incomplete: it raises."""
    put(storage, f"{root}/a")

    def never(request: Request) -> Response | None:
        if not is_bulk_delete(request):
            return None
        body = f"<Error><Key>{root[5:]}/a</Key><Code>SlowDown</Code><Message>later</Message></Error>"
        return Response(f"<DeleteResult>{body}</DeleteResult>", content_type="application/xml")

    server.faults.append(never)
    (outcome,) = storage.delete_many([f"{root}/a"])
    assert (outcome.status, outcome.error) == ("failed", "SlowDown: later")
    assert len(waits) == objects.ATTEMPTS - 1
    with pytest.raises(StorageError, match="SlowDown"):
        storage.delete_tree(root)


def test_a_refused_request_fails_all_its_keys(storage: S3Storage, server: S3Server, root: str) -> None:
    """A request that fails as a whole is an outcome of each of its paths, never an exception."""
    server.faults.append(times(1, is_bulk_delete, lambda _: error(403, "AccessDenied")))
    outcomes = storage.delete_many([f"{root}/a", f"{root}/b"])
    assert [o.status for o in outcomes] == ["failed", "failed"]
    assert "PermissionError" in (outcomes[0].error or "")


@pytest.mark.parametrize("status_code", [(503, "SlowDown"), (500, "InternalError")])
def test_throttled_requests_are_repeated(
    storage: S3Storage, server: S3Server, root: str, status_code: tuple[int, str]
) -> None:
    """Reads, listings and deletes outlast a service that is busy for a moment."""
    put(storage, f"{root}/a")
    for operation in (storage.read, lambda path: storage.list_dir(root), lambda path: storage.delete_many([path])):
        server.faults[:] = [times(1, lambda _: True, lambda _: error(*status_code))]
        assert operation(f"{root}/a")
    assert not storage.exists(root)


def test_a_conflicting_put_is_repeated(storage: S3Storage, server: S3Server, root: str, waits: list[float]) -> None:
    """409 ConditionalRequestConflict means neither yes nor no: create asks again."""
    conflict = times(2, is_put, lambda _: error(409, "ConditionalRequestConflict"))
    server.faults.append(conflict)
    storage.create(f"{root}/a", b"1")
    assert storage.read(f"{root}/a") == b"1"
    assert len(waits) == 2
    server.faults[:] = [times(100, is_put, lambda _: error(409, "ConditionalRequestConflict"))]
    with pytest.raises(StorageError, match="Conflict") as caught:
        storage.create(f"{root}/b", b"1")
    assert not isinstance(caught.value, PathExistsError)


def test_a_put_whose_answer_was_lost_is_our_own(storage: S3Storage, server: S3Server, root: str) -> None:
    """The repeated put finds the object of the first: that is success, not somebody else's file."""

    def lose(request: Request) -> Response:
        server.let_pass(request)
        return error(500, "InternalError")

    server.faults.append(times(1, is_put, lose))
    storage.create(f"{root}/a", b"1")
    assert storage.read(f"{root}/a") == b"1"
    assert [method for method, path, _ in server.requests if path.endswith("/a")][:2] == ["PUT", "PUT"]
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/a", b"1")


def test_creates_are_conditional(storage: S3Storage, server: S3Server, root: str) -> None:
    """Every create is one put with If-None-Match: *, once the service has shown that it minds it."""
    storage.create(f"{root}/a", b"1")
    seen = []
    server.faults.append(lambda request: seen.append((request.method, request.headers.get("If-None-Match"))))
    storage.create(f"{root}/b", b"1")
    assert seen == [("PUT", "*")]


def test_a_service_that_ignores_the_condition_is_refused(server: S3Server, root: str) -> None:
    """The first create finds such a service out, overwrites nothing and leaves nothing."""

    def ignorant(request: Request) -> None:
        request.environ.pop("HTTP_IF_NONE_MATCH", None)

    server.faults.append(ignorant)
    storage, _ = open_storage("s3://lake/t", server.options)
    storage.replace(f"{root}/a", b"1")
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/a", b"2")
    assert storage.read(f"{root}/a") == b"1"
    with pytest.raises(UnsupportedFeatureError, match="ignores If-None-Match"):
        storage.create(f"{root}/b", b"1")
    assert [e.name for e in storage.list_dir(root)] == ["a"]


def test_a_library_without_conditional_put_is_refused(
    storage: S3Storage, server: S3Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """s3fs drops what botocore does not know, so an old botocore would overwrite: refused before it writes."""
    put_object = storage.fs.s3.meta.service_model.operation_model("PutObject").input_shape
    members = {name: shape for name, shape in put_object.members.items() if name != "IfNoneMatch"}
    monkeypatch.setitem(put_object.__dict__, "members", members)
    model = storage.fs.s3.meta.service_model
    monkeypatch.setattr(type(model.operation_model("PutObject")), "input_shape", put_object)
    server.requests.clear()
    with pytest.raises(UnsupportedFeatureError, match="conditional put"):
        storage.create(f"{root}/a", b"1")
    assert server.requests == []


def test_names_that_s3fs_misreads_are_read(storage: S3Storage, root: str) -> None:
    """s3fs would cut ?versionId= off a name and read another object."""
    path = f"{root}/a?versionId=b"
    with storage.open_output(path) as file:
        file.write(b"xy")
    assert [e.path for e in storage.walk(root)] == [path]
    assert (storage.read(path), storage.read_range(path, 1, 1)) == (b"xy", b"y")
    with storage.open_input(path) as source:
        assert source.read() == b"xy"


def test_a_missing_bucket(storage: S3Storage) -> None:
    """No bucket is no directory; deleting in it fails, removing it is done."""
    assert not storage.exists("no-bucket/t")
    with pytest.raises(FileNotFoundError):
        storage.list_dir("no-bucket/t")
    storage.delete_tree("no-bucket/t")
    assert storage.delete_many(["no-bucket/t/a"])[0].status == "failed"


def test_a_whole_bucket_is_never_removed(storage: S3Storage) -> None:
    """delete_tree of a bucket is a mistake."""
    with pytest.raises(StorageError, match="whole bucket"):
        storage.delete_tree("lake")


def test_credentials_are_in_no_repr(storage: S3Storage) -> None:
    """Neither repr nor str shows a secret, and pickling keeps the options."""
    assert "secret" not in repr(storage) + str(storage)
    assert pickle.loads(pickle.dumps(storage)).options["secret"] == "very-secret"


def test_options_of_both_spellings() -> None:
    """pyiceberg's option names mean what s3fs calls otherwise."""
    assert s3fs_arguments(
        {
            "s3.endpoint": "http://e",
            "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
            "s3.session-token": "t",
            "s3.region": "r",
            "s3.path-style-access": "true",
            "use_ssl": "False",
            "client_kwargs": '{"verify": false}',
        }
    ) == {
        "endpoint_url": "http://e",
        "key": "k",
        "secret": "s",
        "token": "t",
        "use_ssl": False,
        "client_kwargs": {"region_name": "r", "verify": False},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"s3.endpont": "x"}, r"did you mean s3\.endpoint"),
        ({"anon": "yes"}, "must be true or false"),
        ({"client_kwargs": "[1]"}, "not a JSON object"),
        ({"key": "a", "s3.access-key-id": "b"}, "under two names"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    """An option that is unknown, malformed or doubled says so, without its value."""
    with pytest.raises(OptionError, match=message):
        open_storage("s3://lake/t", options)


def test_s3fs_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without s3fs an S3 URL says what to install."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(OptionError, match=r"pip install 'lakemeta\[s3\]'"):
        open_storage("s3://lake/t")


def test_url(storage: S3Storage) -> None:
    """Paths are written with s3://, whatever scheme the table was opened with."""
    other, path = open_storage("s3a://lake/t/", {})
    assert (path, other.url(path)) == ("lake/t", "s3://lake/t")


def test_a_move_that_was_cut_short(server: S3Server, storage: S3Storage, root: str) -> None:
    """The copy is there and the old object too: the same move deletes that, without another copy."""
    put(storage, f"{root}/a", f"{root}/q/a", data=b"same")
    server.requests.clear()
    assert [o.status for o in storage.move_many([(f"{root}/a", f"{root}/q/a")])] == ["deleted"]
    assert {e.path for e in storage.walk(root)} == {f"{root}/q/a"}
    assert not [path for method, path, _ in server.requests if method == "PUT"]


def test_what_cannot_be_copied_stays(server: S3Server, storage: S3Storage, root: str) -> None:
    """Its outcome says why, and the others are moved."""
    put(storage, f"{root}/a", f"{root}/b")
    server.faults.append(
        lambda r: error(403, "AccessDenied") if r.method == "PUT" and r.path.endswith("/q/a") else None
    )
    failed, moved = storage.move_many([(f"{root}/{name}", f"{root}/q/{name}") for name in "ab"])
    assert (failed.status, moved.status) == ("failed", "deleted")
    assert {e.path for e in storage.walk(root)} == {f"{root}/a", f"{root}/q/b"}


@pytest.fixture
def versioned(connected: S3Storage) -> tuple[S3Storage, str]:
    """A storage, and a directory in a bucket that keeps versions."""
    bucket = f"versions-{next(_NUMBERS)}"
    connected._call("create_bucket", Bucket=bucket)
    connected._call("put_bucket_versioning", Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return connected, f"{bucket}/t"


def versions(storage: S3Storage, path: str) -> tuple[int, int]:
    """How many versions and delete markers a directory has."""
    bucket, _, prefix = path.partition("/")
    found = storage._call("list_object_versions", Bucket=bucket, Prefix=prefix)
    return len(found.get("Versions", ())), len(found.get("DeleteMarkers", ()))


def test_which_buckets_keep_versions(versioned: tuple[S3Storage, str], server: S3Server, root: str) -> None:
    """Those whose versioning is enabled; not those of which the service will not say."""
    storage, path = versioned
    assert storage.keeps_versions(path)
    assert not storage.keeps_versions(root)
    server.faults.append(lambda r: error(403, "AccessDenied") if "versioning" in r.query_string.decode() else None)
    assert not storage.keeps_versions("another/t")


@pytest.mark.parametrize("known", [True, False])
def test_hidden_files_come_back(versioned: tuple[S3Storage, str], known: bool) -> None:
    """By their markers, or by the newest marker; what is there is not touched, and nothing comes of nothing."""
    storage, path = versioned
    put(storage, f"{path}/a", f"{path}/ab", data=b"1")
    hidden = storage.hide_many([f"{path}/a", f"{path}/ab"])
    assert [o.status for o in hidden] == ["deleted", "deleted"]
    assert not storage.exists(path)
    put(storage, f"{path}/ab", data=b"newer")
    marked = [(o.path, o.version if known else None) for o in hidden]
    assert [o.status for o in storage.unhide_many([*marked, (f"{path}/none", None)])] == ["deleted", "failed", "absent"]
    assert [storage.read(f"{path}/{name}") for name in ("a", "ab")] == [b"1", b"newer"]


def test_a_file_that_was_deleted_twice(versioned: tuple[S3Storage, str]) -> None:
    """The first marker does not bring back what a second one hides."""
    storage, path = versioned
    put(storage, f"{path}/a", data=b"1")
    (first,) = storage.hide_many([f"{path}/a"])
    put(storage, f"{path}/a", data=b"2")
    (second,) = storage.hide_many([f"{path}/a"])
    assert [o.status for o in storage.unhide_many([(f"{path}/a", first.version)])] == ["failed"]
    assert [o.status for o in storage.unhide_many([(f"{path}/a", second.version)])] == ["deleted"]
    assert storage.read(f"{path}/a") == b"2"


def test_hidden_files_are_forgotten(versioned: tuple[S3Storage, str]) -> None:
    """Version and marker go for good, a second time finds nothing, and a file that is there keeps all it has."""
    storage, path = versioned
    put(storage, f"{path}/a", f"{path}/b", f"{path}/aa", data=b"1")
    hidden = storage.hide_many([f"{path}/a", f"{path}/b"])
    storage.unhide_many([(f"{path}/b", None)])
    marked = [(o.path, o.version) for o in hidden]
    assert [o.status for o in storage.forget_many(marked)] == ["deleted", "absent"]
    assert [o.status for o in storage.forget_many(marked)] == ["absent", "absent"]
    assert versions(storage, path) == (2, 0)
    assert storage.read(f"{path}/b") == b"1"
