"""The engine's records of a rollback: its plan, what it did, and what a restore did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro.container import write_container
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.names import BLOCK_TOKEN
from lakemeta.hudi.timeline.action_metadata import engine_schema, one_record
from lakemeta.hudi.timeline.fields import Record
from lakemeta.hudi.timeline.instants import ACTIONS, is_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLLBACK_VERSION: Final = 1


@attrs.frozen(slots=True)
class RollbackRequest:
    """One piece of a rollback (``HoodieRollbackRequest``): files to delete, or a slice to append a rollback block to.

    ``files`` are absolute paths as the engine writes them; ``log_blocks`` maps the log files whose blocks are undone
    to a number of bytes that nothing reads. By listing, ``file_id`` and ``base_instant`` of files are empty.
    """

    partition: str
    file_id: str
    base_instant: str
    files: tuple[str, ...] = ()
    log_blocks: Mapping[str, int] = attrs.field(factory=dict)

    def folder(self, root: str) -> str:
        """The directory of its partition in the table at ``root``."""
        return f"{root}/{self.partition}" if self.partition else root

    def block_file(self, root: str, number: int) -> str:
        """The path of a new log file for its rollback block."""
        return f"{self.folder(root)}/.{self.file_id}_{self.base_instant}.log.{number}_{BLOCK_TOKEN}"


@attrs.frozen
class RollbackPlan:
    """``HoodieRollbackPlan``: the failed write (its requested time and action) and what undoes it."""

    instant: str
    action: str
    requests: tuple[RollbackRequest, ...]


def decode_rollback_plan(data: bytes, where: str) -> RollbackPlan:
    """Read ``<ts>.rollback.requested``."""
    record = Record(one_record(data, where), where)
    target = record.nullable_record("instantToRollback")
    if target is None:
        raise CorruptMetadataError(f"{where} does not say what it rolls back; delete that file and roll back again")
    instant, action = target.need("commitTime", str), target.need("action", str)
    if not is_instant(instant) or action not in ACTIONS:
        raise CorruptMetadataError(
            f"{where} rolls back {instant!r} {action!r}, which is no instant; delete that file and roll back again"
        )
    return RollbackPlan(instant, action, tuple(map(_request, record.records("RollbackRequests"))))


def _request(record: Record) -> RollbackRequest:
    base_instant = record.nullable("latestBaseInstant", str) or ""
    if base_instant and not is_instant(base_instant):
        raise CorruptMetadataError(f"{record.where} names {base_instant!r}, which is no instant; nothing was done")
    return RollbackRequest(
        record.need("partitionPath", str),
        record.nullable("fileId", str) or "",
        base_instant,
        record.need_strings("filesToBeDeleted"),
        record.nullable_numbers("logBlocksToBeDeleted"),
    )


def encode_rollback_plan(plan: RollbackPlan) -> bytes:
    """The bytes of ``<ts>.rollback.requested``, with the writer schema of the engine."""
    record = {
        "instantToRollback": {"commitTime": plan.instant, "action": plan.action},
        "RollbackRequests": [
            {
                "partitionPath": request.partition,
                "fileId": request.file_id,
                "latestBaseInstant": request.base_instant,
                "filesToBeDeleted": list(request.files),
                "logBlocksToBeDeleted": dict(request.log_blocks),
            }
            for request in plan.requests
        ],
        "version": ROLLBACK_VERSION,
    }
    return write_container(engine_schema("HoodieRollbackPlan"), [record])


def decode_rolled_back(data: bytes, where: str) -> frozenset[str]:
    """The requested times of the writes that a completed rollback undid."""
    return frozenset(Record(one_record(data, where), where).need_strings("commitsRollback"))


def decode_restored(data: bytes, where: str) -> frozenset[str]:
    """The requested times of the writes that a completed restore undid."""
    return frozenset(Record(one_record(data, where), where).need_strings("instantsToRollback"))


def encode_rollback_metadata(record: Mapping[str, Any]) -> bytes:
    """The bytes of a completed rollback from the fields of ``HoodieRollbackMetadata``."""
    return write_container(engine_schema("HoodieRollbackMetadata"), [record])
