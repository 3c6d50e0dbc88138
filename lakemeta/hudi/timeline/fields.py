"""Reads the fields of a decoded record, and takes a missing or strange one for the damage that it is.

An Avro file carries its own schema, so one changed letter in its header renames a field: what the file says is then
whole, and what it is asked for is not there. A field that every supported release writes must therefore be there, also
where the schema allows it to be null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")


@attrs.frozen(slots=True)
class Record:
    """One record, and where it was read (a path, for messages).

    All methods raise CorruptMetadataError, naming the field, for a value of another kind.
    """

    fields: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Record:
        """The record that a value must be."""
        if not isinstance(value, dict):
            raise CorruptMetadataError(f"{where} has {value!r:.100} where a record belongs; restore that file")
        return cls(value, where)

    def need(self, name: str, kind: type[T]) -> T:
        """A field that must be there and not null."""
        value = self._there(name)
        return self._of_kind(name, value, kind)

    def nullable(self, name: str, kind: type[T]) -> T | None:
        """A field that must be there and may be null."""
        value = self._there(name)
        return None if value is None else self._of_kind(name, value, kind)

    def optional(self, name: str, kind: type[T]) -> T | None:
        """A field that some releases do not write."""
        value = self.fields.get(name)
        return None if value is None else self._of_kind(name, value, kind)

    def records(self, name: str) -> Iterator[Record]:
        """The records of an array, which must be there and may be null."""
        return (self._record(name, value) for value in self.nullable(name, list) or ())

    def need_records(self, name: str) -> Iterator[Record]:
        """The records of an array, which must be there and not null."""
        return (self._record(name, value) for value in self.need(name, list))

    def nullable_record(self, name: str) -> Record | None:
        """A record in a field that must be there and may be null."""
        value = self.nullable(name, dict)
        return None if value is None else Record(value, self.where)

    def record_map(self, name: str) -> dict[str, Record]:
        """The records of a map, which must be there and not null."""
        return {key: self._record(name, value) for key, value in self.need(name, dict).items()}

    def need_strings(self, name: str) -> tuple[str, ...]:
        """The texts of an array, which must be there and not null."""
        return self._strings(name, self.need(name, list))

    def optional_strings(self, name: str) -> tuple[str, ...] | None:
        """The texts of an array that some releases do not write, or null."""
        value = self.optional(name, list)
        return None if value is None else self._strings(name, value)

    def optional_texts(self, name: str) -> dict[str, str]:
        """A map of texts that some releases do not write; empty if it is null."""
        return {key: self._of_kind(name, value, str) for key, value in (self.optional(name, dict) or {}).items()}

    def nullable_numbers(self, name: str) -> dict[str, int]:
        """A map of whole numbers of 64 bits, which must be there; empty if it is null."""
        numbers = {key: self._of_kind(name, value, int) for key, value in (self.nullable(name, dict) or {}).items()}
        for value in numbers.values():
            if not -(2**63) <= value < 2**63:
                raise CorruptMetadataError(f"{self.where} has {value!r:.100} as its {name}; restore that file")
        return numbers

    def nullable_lists(self, name: str, kind: type[T]) -> dict[str, list[T]]:
        """A map of arrays whose items are of a kind, which must be there; empty if it is null."""
        lists = {key: self._of_kind(name, value, list) for key, value in (self.nullable(name, dict) or {}).items()}
        for items in lists.values():
            for item in items:
                self._of_kind(name, item, kind)
        return lists

    def _there(self, name: str) -> Any:
        if name not in self.fields:
            raise CorruptMetadataError(f"{self.where} has no field {name}, which Hudi always writes; restore that file")
        return self.fields[name]

    def _record(self, name: str, value: Any) -> Record:
        return Record(self._of_kind(name, value, dict), self.where)

    def _strings(self, name: str, values: list[Any]) -> tuple[str, ...]:
        return tuple(self._of_kind(name, value, str) for value in values)

    def _of_kind(self, name: str, value: Any, kind: type[T]) -> T:
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise CorruptMetadataError(f"{self.where} has {value!r:.100} as its {name}; restore that file")
        return value
