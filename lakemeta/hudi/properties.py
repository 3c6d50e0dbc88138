"""``hoodie.properties``: the table's own configuration (``HoodieTableConfig``).

A properties file is Java's: ``key=value`` lines, ``#`` comments, backslash escapes. The checksum is the CRC32 of
``<database>.<table>`` and covers nothing else.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORTED_VERSIONS: Final = (6, 8, 9)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


@attrs.frozen
class TableConfig:
    """The properties of one table, with the ones that lakemeta acts on by name."""

    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.properties["hoodie.table.name"]

    @property
    def version(self) -> int:
        """The table version: 6, 8 or 9."""
        return int(self.properties["hoodie.table.version"])

    @property
    def layout(self) -> int:
        """The timeline layout: 1 up to table version 7, 2 from version 8 on."""
        return 2 if self.version >= 8 else 1

    @property
    def table_type(self) -> str:
        """``COPY_ON_WRITE`` or ``MERGE_ON_READ``."""
        return self.properties.get("hoodie.table.type", "COPY_ON_WRITE")

    @property
    def is_partitioned(self) -> bool:
        """True if the table has partition fields."""
        return bool(self.properties.get("hoodie.table.partition.fields", "").strip())

    @property
    def timeline_folder(self) -> str:
        """Where instants lie, relative to the table root."""
        return f".hoodie/{self.properties.get('hoodie.timeline.path', 'timeline')}" if self.layout == 2 else ".hoodie"

    @property
    def archive_folder(self) -> str:
        """Where archived instants lie, relative to the table root."""
        if self.layout == 2:
            return f"{self.timeline_folder}/{self.properties.get('hoodie.timeline.history.path', 'history')}"
        folder = self.properties.get("hoodie.archivelog.folder", "").strip("/")
        return f".hoodie/{folder}" if folder else ".hoodie"

    @property
    def timezone(self) -> str:
        """``UTC`` or ``LOCAL``: the timezone in which instant times are written (LOCAL is the writers' own)."""
        return self.properties.get("hoodie.table.timeline.timezone", "LOCAL").upper()

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """The usable partitions of the metadata table."""
        return _names(self.properties.get("hoodie.table.metadata.partitions", ""))

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """The partitions of the metadata table that are being built."""
        return _names(self.properties.get("hoodie.table.metadata.partitions.inflight", ""))

    @property
    def has_metadata_table(self) -> bool:
        """True if a metadata table serves this table or is being built for it."""
        return bool(self.metadata_partitions or self.metadata_partitions_inflight)


def parse_table_config(data: bytes, where: str) -> TableConfig:
    """Read and check ``hoodie.properties``.

    Raises:
        CorruptMetadataError: it is truncated, has no name, type or version, or its checksum is wrong.
        UnsupportedFeatureError: the table version or the base file format is one that lakemeta does not handle.
    """
    properties = parse_properties(data, where)
    for key in ("hoodie.table.name", "hoodie.table.version", "hoodie.table.type"):
        if not properties.get(key):
            raise CorruptMetadataError(f"{where} has no {key}, so it is truncated or not a table's; restore it")
    _check_version(properties["hoodie.table.version"], where)
    _check_checksum(properties, where)
    _check_features(properties, where)
    return TableConfig(properties)


def parse_properties(data: bytes, where: str) -> dict[str, str]:
    """Read a Java properties file; raises CorruptMetadataError for a line that is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptMetadataError(f"{where} is not text (byte {error.start}); restore it") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = _split(stripped)
        if not separator:
            raise CorruptMetadataError(f"line {number} of {where} is not key=value; restore the file")
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Mapping[str, str], comment: str) -> bytes:
    """A properties file with one comment line and the keys in the order given."""
    lines = [f"#{comment}", *(f"{_escape(k)}={_escape(v)}" for k, v in properties.items())]
    return ("\n".join(lines) + "\n").encode()


def checksum(properties: Mapping[str, str]) -> int:
    """CRC32 of ``<database>.<table>`` (``HoodieTableConfig.generateChecksum``)."""
    name = f"{properties.get('hoodie.database.name', '')}.{properties['hoodie.table.name']}"
    return zlib.crc32(name.encode())


def _check_version(value: str, where: str) -> None:
    if not value.isdecimal():
        raise CorruptMetadataError(f"{where} says hoodie.table.version={value}, which is no number; restore it")
    version = int(value)
    if version not in SUPPORTED_VERSIONS:
        way = "upgrade the table with a newer Hudi" if version < 8 else "use a newer lakemeta"
        raise UnsupportedFeatureError(
            f"{where} says table version {version}, and lakemeta handles 6, 8 and 9 only; {way}"
        )


def _check_checksum(properties: Mapping[str, str], where: str) -> None:
    stored = properties.get("hoodie.table.checksum")
    if stored is not None and stored != str(checksum(properties)):
        raise CorruptMetadataError(
            f"{where} has hoodie.table.checksum={stored} but its names give {checksum(properties)}; restore it"
        )


def _check_features(properties: Mapping[str, str], where: str) -> None:
    base_format = properties.get("hoodie.table.base.file.format", "PARQUET").upper()
    if base_format != "PARQUET":
        raise UnsupportedFeatureError(f"{where} says base files are {base_format}; lakemeta handles PARQUET only")
    if properties.get("hoodie.table.multiple.base.file.formats.enable", "false").lower() == "true":
        raise UnsupportedFeatureError(f"{where} allows several base file formats; lakemeta handles PARQUET only")
    table_format = properties.get("hoodie.table.format", "native")
    if table_format != "native":
        raise UnsupportedFeatureError(f"{where} says table format {table_format}; lakemeta handles native only")
    if properties.get("hoodie.table.type") not in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        raise CorruptMetadataError(f"{where} says hoodie.table.type={properties['hoodie.table.type']}; restore it")


def _split(line: str) -> tuple[str, str, str]:
    for index, char in enumerate(line):
        if char in "=:" and (index == 0 or line[index - 1] != "\\"):
            return line[:index].rstrip(), char, line[index + 1 :].lstrip()
    return line, "", ""


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return _ESCAPE.sub(plain, text) if "\\" in text else text


def _escape(text: str) -> str:
    escaped = re.sub(r"([\\=:#!])", r"\\\1", text).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"[^\x20-\x7e]", lambda m: f"\\u{ord(m[0]):04x}", escaped)


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())
