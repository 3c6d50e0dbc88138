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
from lakemeta.hudi.files.layout import HISTORY_NAME, METADATA_FOLDER, TIMELINE_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORTED_VERSIONS: Final = (6, 8, 9)
_LINE: Final = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:][ \t\f]*(?P<value>.*)", re.DOTALL)
_IN_KEY: Final = re.compile(r"[\\=:#! ]")
_IN_VALUE: Final = re.compile(r"[\\=:#!]|^ ")
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
        if self.layout == 1:
            return METADATA_FOLDER
        return f"{METADATA_FOLDER}/{self.properties.get('hoodie.timeline.path', TIMELINE_NAME)}"

    @property
    def archive_folder(self) -> str:
        """Where archived instants lie, relative to the table root."""
        if self.layout == 2:
            return f"{self.timeline_folder}/{self.properties.get('hoodie.timeline.history.path', HISTORY_NAME)}"
        folder = self.properties.get("hoodie.archivelog.folder", "").strip("/")
        return f"{METADATA_FOLDER}/{folder}" if folder else METADATA_FOLDER

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
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        stripped = line.lstrip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise CorruptMetadataError(f"line {number} of {where} is not key=value; restore the file")
        properties[_unescape(match["key"])] = _unescape(match["value"])
    return properties


def format_properties(properties: Mapping[str, str], comment: str) -> bytes:
    """A properties file with one comment line and the keys in the order given."""
    lines = [f"#{comment}", *(f"{_escape(k, _IN_KEY)}={_escape(v, _IN_VALUE)}" for k, v in properties.items())]
    return ("\n".join(lines) + "\n").encode()


def checksum(properties: Mapping[str, str]) -> int:
    """CRC32 of ``<database>.<table>`` (``HoodieTableConfig.generateChecksum``)."""
    name = f"{properties.get('hoodie.database.name', '')}.{properties['hoodie.table.name']}"
    return zlib.crc32(name.encode())


def _check_version(value: str, where: str) -> None:
    if not re.fullmatch("[0-9]{1,9}", value):
        raise CorruptMetadataError(f"{where} says hoodie.table.version={value:.60}, which is no number; restore it")
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
    for key in ("hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder"):
        folder = properties.get(key, "").strip("/")
        if folder and not {"", ".", ".."}.isdisjoint(folder.split("/")):
            raise CorruptMetadataError(f"{where} says {key}={properties[key]}, which leads out of .hoodie; restore it")
    table_format = properties.get("hoodie.table.format", "native")
    if table_format != "native":
        raise UnsupportedFeatureError(f"{where} says table format {table_format}; lakemeta handles native only")
    if properties.get("hoodie.table.type") not in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        raise CorruptMetadataError(f"{where} says hoodie.table.type={properties['hoodie.table.type']}; restore it")


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return _joined(_ESCAPE.sub(plain, text)) if "\\" in text else text


def _joined(text: str) -> str:
    """Java writes a character beyond the 16-bit ones as two escapes, the halves of a surrogate pair."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, special: re.Pattern[str]) -> str:
    escaped = special.sub(r"\\\g<0>", text).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"[^\x20-\x7e]", _escaped, escaped)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())
