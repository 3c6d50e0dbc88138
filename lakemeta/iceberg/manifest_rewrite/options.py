"""Options of rewrite_manifests: the procedure's arguments, and two of lakemeta's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.commit.manifest_merge import MergePolicy
from lakemeta.iceberg.service.arguments import texts
from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.spec.options import check, small, truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

ALL_SPECS: Final = "lakemeta.all-specs"
ONLY_IF_GAINED: Final = "lakemeta.only-if-gained"


@attrs.frozen(slots=True)
class ManifestOptions:
    """What is rewritten: manifests of these partition specs, into ones of about ``target_size_bytes``.

    ``sort_by`` are partition fields by which files are clustered, first to last; None takes all of the spec. With
    ``only_if_gained`` manifests stay that are clustered well enough (``gain``).
    """

    spec_ids: tuple[int, ...]
    sort_by: tuple[str, ...] | None
    target_size_bytes: int
    only_if_gained: bool

    @classmethod
    def parse(cls, options: Mapping[str, str], metadata: TableMetadata) -> ManifestOptions:
        """Read options; raises OptionError, in the engine's words where it has any.

        ``use_caching`` is accepted and changes nothing, in the engine neither.
        """
        reject_others("rewrite-manifests", options)
        truth(options, "use_caching", False)
        spec_id = small(options, "spec_id", metadata.default_spec_id)
        check(spec_id in metadata.specs_by_id, f"Invalid spec id {spec_id}")
        sort_by = _sort_by(options, metadata.specs_by_id[spec_id])
        others: list[int] = []
        if truth(options, ALL_SPECS, False):
            check(sort_by is None, f"{ALL_SPECS} and sort_by exclude each other: specs have different fields")
            others = sorted(metadata.specs_by_id.keys() - {spec_id}, reverse=True)
        target = MergePolicy.of(metadata.properties).target_size_bytes
        if target < 1:
            raise OptionError(f"'commit.manifest.target-size-bytes' is set to {target} but must be at least 1")
        return cls((spec_id, *others), sort_by, target, truth(options, ONLY_IF_GAINED, False))


def _sort_by(options: Mapping[str, str], spec: PartitionSpec) -> tuple[str, ...] | None:
    if "sort_by" not in options:
        return None
    check(bool(options["sort_by"].strip()), "sort_by must not be empty when provided")
    wanted = texts(options, "sort_by")
    known = {field.name for field in spec.fields}
    if missing := [name for name in wanted if name not in known]:
        fields = "".join(f"\n  {f.field_id}: {f.name}: {f.transform}({f.source_id})" for f in spec.fields)
        raise OptionError(
            f"Cannot set manifest sorting because specified field(s) [{', '.join(missing)}] were not found in current "
            f"partition spec [{fields}\n]. Spec ID {spec.spec_id}"
        )
    return wanted
