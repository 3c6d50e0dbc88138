"""The contract on real servers of S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

import pytest
from contract.storage_contract import StorageContract
from contract.store_servers import SERVERS, StoreServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.storage.objects import ObjectStorage

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()


class ObjectStoreContract(StorageContract):
    name: ClassVar[str]

    @pytest.fixture(scope="class")
    def server(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
        with SERVERS[self.name](tmp_path_factory.mktemp(self.name)) as running:
            yield running

    @pytest.fixture
    def root(self, server: StoreServer) -> str:
        return server.open(f"contract-{next(_NUMBERS)}")[1]

    @pytest.fixture(scope="class")
    def storage(self, server: StoreServer) -> ObjectStorage:
        return server.open("t")[0]


class TestVersitygw(ObjectStoreContract):
    name = "s3"


class TestFakeGcs(ObjectStoreContract):
    name = "gs"


class TestAzurite(ObjectStoreContract):
    name = "abfss"
    refused_names = frozenset({"back\\slash"})  # Azure takes it for another name
