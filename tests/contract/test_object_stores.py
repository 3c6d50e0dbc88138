"""The contract on real servers of S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from contract.storage_contract import StorageContract, put
from contract.store_servers import SERVERS, StoreServer

from lakemeta.errors import PathNotFoundError
from lakemeta.storage import open_storage, streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.storage.objects import ObjectStorage

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()


@pytest.fixture(scope="class")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with SERVERS[request.cls.name](tmp_path_factory.mktemp(request.cls.name)) as running:
        yield running


@pytest.fixture
def root(server: StoreServer) -> str:
    return server.open(f"contract-{next(_NUMBERS)}")[1]


@pytest.fixture(scope="class")
def storage(server: StoreServer) -> ObjectStorage:
    return server.open("t")[0]


class ObjectStoreContract(StorageContract):
    def test_many_parts(self, storage: ObjectStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is longer than a part goes in several, and is one object once it is closed."""
        monkeypatch.setattr(streams, "PART", 5 * 2**20)  # the least that S3 takes
        data = random.Random(7).randbytes(12 * 2**20)
        storage.requests.take()
        with storage.open_output(f"{root}/a") as file:
            for start in range(0, len(data), 2**20 + 1):
                file.write(data[start : start + 2**20 + 1])
            assert not storage.exists(f"{root}/a")
            assert file.tell() == len(data)
        assert storage.requests.take()["PUT"] == 5  # begin, three parts, end
        assert storage.read(f"{root}/a") == data
        with storage.open_input(f"{root}/a") as source:
            source.seek(7 * 2**20)
            assert source.read(100) == data[7 * 2**20 : 7 * 2**20 + 100]
            assert source.read() == data[7 * 2**20 + 100 :]

    def test_deletions_go_in_batches(self, storage: ObjectStorage, root: str) -> None:
        """As many keys a request as the store takes; each path has its outcome, whether it was there or not."""
        count = 2 * storage.keys_a_request + 1
        paths = [f"{root}/p{n % 3}/{n}" for n in range(count)]
        put(storage, *paths[:2], paths[-1])
        storage.requests.take()
        outcomes = storage.delete_many(paths)
        assert [o.path for o in outcomes] == paths
        assert {o.status for o in outcomes} <= {"deleted", "absent"}
        assert outcomes[0].status == outcomes[-1].status == "deleted"
        assert storage.requests.take() == {"DELETE": 3}
        assert not storage.exists(root)

    def test_requests_are_counted(self, storage: ObjectStorage, root: str) -> None:
        """Each kind by itself; a listing is a request a page, however many files it has."""
        storage.requests.take()
        put(storage, *(f"{root}/{n}" for n in range(20)))
        assert storage.requests.take() == {"PUT": 20}
        assert len(storage.list_dir(root)) == len(list(storage.walk(root))) == 20
        storage.read(f"{root}/1")
        storage.stat(f"{root}/1")
        assert storage.requests.take() == {"GET": 1, "HEAD": 1, "LIST": 2}
        assert storage.requests.take() == {}

    def test_other_spellings_reach_the_same_place(self, server: StoreServer, storage: ObjectStorage, root: str) -> None:
        """Every spelling of the URL opens the same store."""
        put(storage, f"{root}/a")
        for url in server.spellings:
            other, path = open_storage(f"{url}/{root.partition('/')[2]}", server.options)
            assert (other, path) == (storage, root)
            assert other.read(f"{path}/a") == b"x"

    def test_a_missing_bucket(self, storage: ObjectStorage) -> None:
        """No bucket is no directory; removing in it is done."""
        assert not storage.exists("no-bucket/t")
        with pytest.raises(PathNotFoundError):
            storage.list_dir("no-bucket/t")
        storage.delete_tree("no-bucket/t")


class TestVersitygw(ObjectStoreContract):
    name = "s3"


class TestFakeGcs(ObjectStoreContract):
    name = "gs"


class TestAzurite(ObjectStoreContract):
    name = "abfss"
    refused_names = frozenset({"back\\slash"})  # Azure takes it for another name
