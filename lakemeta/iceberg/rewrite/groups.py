"""Groups of data files that are rewritten together, and their form in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.locations import within
from lakemeta.plan_operations import Rewrite
from lakemeta.words import count_of

if TYPE_CHECKING:
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value


@attrs.frozen(slots=True, hash=False)
class RewriteGroup:
    """Files to rewrite together into ``expected_outputs`` files of partition spec ``spec_id``.

    ``partition`` is a tuple of the table's default spec, all None if files of other specs are in it.
    """

    group: int
    partition: tuple[Value, ...]
    spec_id: int
    tasks: tuple[FileScanTask, ...] = attrs.field(repr=lambda tasks: f"<{len(tasks)} files>")
    bytes: int
    split_size: int
    expected_outputs: int
    max_output_size: int

    def __str__(self) -> str:
        first, more = self.tasks[0].data_file.file_path, len(self.tasks) - 1
        rest = f" and {count_of(more, 'more file')}" if more else ""
        return f"group {self.group} ({first}{rest})"

    def to_operation(self, metadata: TableMetadata, wholly_matching: int | None = None) -> Rewrite:
        """The group as an operation of a plan file; paths are relative where they lie under the table.

        ``wholly_matching`` is how many of its files hold only rows that match the filter, None without a filter.
        """
        deletes = {within(metadata.location, d.file_path) for task in self.tasks for d in task.deletes}
        return Rewrite(
            group=self.group,
            partition=partition_json(self.partition, metadata),
            spec_id=self.spec_id,
            inputs=[within(metadata.location, task.data_file.file_path) for task in self.tasks],
            deletes=sorted(deletes),
            bytes=self.bytes,
            expected_outputs=self.expected_outputs,
            split_size=self.split_size,
            max_output_size=self.max_output_size,
            wholly_matching=wholly_matching,
        )


def partition_json(partition: tuple[Value, ...], metadata: TableMetadata, spec_id: int | None = None) -> dict[str, Any]:
    """A partition of a spec, by default the table's default one, by field name, in JSON values (dates as text)."""
    chosen = metadata.default_spec_id if spec_id is None else spec_id
    fields = zip(metadata.specs_by_id[chosen].fields, metadata.partition_types(chosen), partition, strict=True)
    return {field.name: values.to_json(kind, value) for field, kind, value in fields}
