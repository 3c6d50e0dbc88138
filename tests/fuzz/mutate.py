"""Mutations of metadata: of bytes, and of what JSON, Avro, properties and file names say.

A mutation changes the files of a table, given as path to content, and is a function of its random numbers alone.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import fastavro

Contents = dict[str, bytes]
Place = tuple[Any, Any]  # a list or dict, and the index or key of a value in it

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 10**30, 1.5, -0.5,
    1e300, "", "x", "0", "-1", "null", "../x", "../../victim", "/etc/passwd", "..", ".", "a/../b", "/", "p1/", "//",
    "20260101000000000", "99991231235959999", "\u0662" * 17, "9" * 40, "\0", "a\nb", "%2e%2e", "file:/x", "s3://b/x",
    "é", "\ud800", "x" * 1000, [], {}, [None], [[]], {"": None}, {"a": {"b": 1}},
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 127, 128, 255, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 253402300800000)


def mutate(files: Contents, names: list[str], random: Random) -> tuple[list[str], bool]:
    """Change one file or a few of ``names``, in place; what was done, in words, and if files came or went by it."""
    done, moved = [], False
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        path = random.choice(names)
        if path not in files:
            continue
        kind = random.choice(_BY_STRUCTURE if random.random() < 0.6 else _BY_BYTES)
        if random.random() < 0.12:
            kind = random.choice(_OF_FILES)
            moved = True
        told = kind(files, path, names, random)
        done.append(f"{kind.__name__.strip('_')} {path.rpartition('/')[2]} {told}")
    return done, moved


def by_structure(files: Contents, path: str, names: list[str], random: Random) -> None:
    """Change what a file says, in place, or a few of its bytes if that cannot be read."""
    random.choice(_BY_STRUCTURE)(files, path, names, random)


def by_bytes(files: Contents, path: str, names: list[str], random: Random) -> None:
    """Change bytes of a file, in place."""
    random.choice(_BY_BYTES)(files, path, names, random)


# --- bytes


def _flip(files: Contents, path: str, _: list[str], random: Random) -> str:
    data = bytearray(files[path])
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    files[path] = bytes(data)
    return ""


def _put_bytes(files: Contents, path: str, _: list[str], random: Random) -> str:
    data = bytearray(files[path])
    at = random.randrange(len(data) + 1)
    new = random.choice((b"\0", b"\xff" * 8, b"\x80" * 9 + b"\x01", b"9", b'"', b"[", b"{"))
    data[at : at + random.randrange(4)] = new
    files[path] = bytes(data)
    return f"at {at}"


def _cut(files: Contents, path: str, _: list[str], random: Random) -> str:
    at = random.choice((0, random.randrange(len(files[path]) + 1)))
    files[path] = files[path][:at]
    return f"at {at}"


def _drop_middle(files: Contents, path: str, _: list[str], random: Random) -> str:
    data = files[path]
    at, size = random.randrange(len(data) + 1), random.choice((1, 2, 16, 200))
    files[path] = data[:at] + data[at + size :]
    return f"{size} bytes at {at}"


def _splice(files: Contents, path: str, names: list[str], random: Random) -> str:
    other, data = files.get(random.choice(names), b""), files[path]
    at, start = random.randrange(len(data) + 1), random.randrange(len(other) + 1)
    files[path] = data[:at] + other[start : start + random.choice((1, 8, 64, 4096))] + data[at:]
    return f"at {at}"


def _double(files: Contents, path: str, _: list[str], random: Random) -> str:
    files[path] = files[path] * random.choice((2, 3))
    return ""


def _bracket(files: Contents, path: str, _: list[str], random: Random) -> str:
    depth = random.choice((101, 2000, 60_000))
    files[path] = random.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth))
    return f"{depth} deep"


# --- structure


def _structure(files: Contents, path: str, names: list[str], random: Random) -> str:
    data = files[path]
    if data.startswith(b"Obj\x01"):
        return random.choice((_avro_values, _avro_values, _avro_schema, _avro_header))(files, path, random)
    if path.endswith(".properties"):
        return _properties(files, path, random)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(files, path, names, random)
    told = change(value, random)
    files[path] = json.dumps(value).encode()
    return told


def _properties(files: Contents, path: str, random: Random) -> str:
    lines = files[path].decode("latin-1").splitlines()
    at = random.randrange(len(lines) or 1)
    if not lines:
        return ""
    key, _, value = lines[at].partition("=")
    lines[at : at + 1] = random.choice(
        ([], [lines[at]] * 2, [f"{key}={random.choice(HOSTILE)}"], [f"{key}x={value}"], [f"{value}={key}"], ["\\u00"])
    )
    files[path] = "\n".join(lines).encode("utf-8", "replace")
    return key


def _avro_values(files: Contents, path: str, random: Random) -> str:
    """Another value of the right type, or for a field that may be null, null."""
    try:
        reader = fastavro.reader(io.BytesIO(files[path]))
        records = list(reader)
    except Exception:
        return "(not readable)"
    schema, metadata = reader.writer_schema, reader.metadata
    before = copy.deepcopy(records)
    told = change(records, random, gentle=True)
    user = {k: v for k, v in metadata.items() if not k.startswith("avro.")}
    for attempt in (records, before):
        out = io.BytesIO()
        try:
            fastavro.writer(out, schema, attempt, codec=metadata.get("avro.codec", "null"), metadata=user)
        except Exception:
            continue
        files[path] = out.getvalue()
        return told
    return "(not writable)"


def _avro_schema(files: Contents, path: str, random: Random) -> str:
    """A changed schema over the same bytes."""
    found = _header_entry(files[path], b"avro.schema")
    if found is None:
        return "(no schema)"
    start, end, text = found
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return "(no JSON)"
    told = _change_schema(schema, random)
    new = json.dumps(schema).encode()
    files[path] = files[path][:start] + _long(len(new)) + new + files[path][end:]
    return told


def _avro_header(files: Contents, path: str, random: Random) -> str:
    """Another value of an entry of the header, or other numbers of a block."""
    data = files[path]
    key = random.choice((b"avro.codec", b"format-version", b"schema", b"partition-spec", b"content", b"schema-id"))
    found = _header_entry(data, key)
    if found is None or random.random() < 0.3:
        return _block_numbers(files, path, random)
    start, end, text = found
    new = random.choice((b"", b"snappy", b"deflate", b"9", b"\xff", b"null", text[: len(text) // 2], text * 2))
    files[path] = data[:start] + _long(len(new)) + new + data[end:]
    return key.decode()


def _block_numbers(files: Contents, path: str, random: Random) -> str:
    data = files[path]
    at = data.find(data[-16:])  # the sync marker ends the header
    if at < 0 or at + 18 > len(data):
        return ""
    at += 16
    end = at + 1
    while data[end - 1] > 0x7F and end < len(data):
        end += 1
    files[path] = data[:at] + _long(random.choice(NUMBERS)) + data[end:]
    return "count"


def _header_entry(data: bytes, key: bytes) -> tuple[int, int, bytes] | None:
    """Where the length of a value of the header starts, where the value ends, and the value."""
    at = data.find(_long(len(key)) + key, 0, 200_000)
    if at < 0:
        return None
    start = position = at + len(_long(len(key))) + len(key)
    size = shift = 0
    while position < len(data):
        size |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if data[position - 1] < 0x80:
            break
    size >>= 1
    return start, position + size, data[position : position + size]


def _long(value: int) -> bytes:
    zigzag, out = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def change(value: Any, random: Random, *, gentle: bool = False) -> str:
    """Change one value, key or item somewhere inside, in place; ``gentle`` keeps types where it can."""
    places = list(_places(value))
    if not places:
        return "(empty)"
    inside, key = random.choice(places)
    old = inside[key]
    kind = random.random()
    if isinstance(inside, dict) and kind < 0.15:
        inside.pop(key)
        return f"without {key}"
    if isinstance(inside, dict) and kind < 0.25:
        inside[random.choice(("x", "", f"{key}x", str(key)[:-1], str(key).upper()))] = inside.pop(key)
        return f"renamed {key}"
    if isinstance(inside, list) and kind < 0.25:
        inside.insert(random.randrange(len(inside) + 1), copy.deepcopy(old))
        return "an item twice"
    if kind < 0.35:
        other, where = random.choice(places)
        inside[key], other[where] = copy.deepcopy(other[where]), old
        return f"swapped {key} and {where}"
    inside[key] = _other(old, random, gentle=gentle)
    return f"{key} = {str(inside[key])[:60]!r}"


def _other(old: Any, random: Random, *, gentle: bool) -> Any:
    if not gentle and random.random() < 0.6:
        return copy.deepcopy(random.choice(HOSTILE))
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return random.choice((*NUMBERS, old + 1, old - 1, -old, old * 10))
    if isinstance(old, bytes):
        return random.choice((b"", b"\0", old[:-1], old * 2, b"\xff" * 8))
    if isinstance(old, str) and old:
        at = random.randrange(len(old))
        near = old[:at] + random.choice("0123456789x/._-") + old[at + 1 :]
        return random.choice((near, near, old[:at], old * 2, *(h for h in HOSTILE if isinstance(h, str))))
    if isinstance(old, list | dict):
        return random.choice((None, type(old)(), old))
    return random.choice(HOSTILE)


def _change_schema(schema: Any, random: Random) -> str:
    """Mostly what still is a schema."""
    types = [(inside, key) for inside, key in _places(schema) if key in ("type", "items", "values", "size", "fields")]
    if not types or random.random() < 0.3:
        return change(schema, random)
    inside, key = random.choice(types)
    own = schema.get("name", "x") if isinstance(schema, dict) else "x"
    inside[key] = random.choice((*_TYPES, own, ["null", inside[key]], {"type": "array", "items": own}))
    return f"{key} = {str(inside[key])[:60]}"


_TYPES: tuple[Any, ...] = (
    "null", "int", "long", "string", "bytes", "boolean", "double", ["null", "long"], 0, -1, 2**70, [], {},
    {"type": "array", "items": "null"}, {"type": "map", "values": "int"},
    {"type": "record", "name": "fuzz", "fields": []}, {"type": "fixed", "name": "fuzz", "size": 0},
)  # fmt: skip


def _places(value: Any) -> Iterator[Place]:
    pending = [value] if isinstance(value, list | dict) else []
    while pending:
        inside = pending.pop()
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        for key in keys:
            yield inside, key
            if isinstance(inside[key], list | dict):
                pending.append(inside[key])


# --- files


def _remove(files: Contents, path: str, _: list[str], random: Random) -> str:
    del files[path]
    return ""


def _empty(files: Contents, path: str, _: list[str], random: Random) -> str:
    files[path] = b""
    return ""


def _swap(files: Contents, path: str, names: list[str], random: Random) -> str:
    other = random.choice(names)
    if other not in files:
        return ""
    files[path], files[other] = files[other], files[path]
    return f"with {other.rpartition('/')[2]}"


def _rename(files: Contents, path: str, _: list[str], random: Random) -> str:
    folder, _, name = path.rpartition("/")
    at = random.randrange(len(name))
    new = random.choice(
        (
            name[:at] + random.choice("0123456789x._-") + name[at + 1 :],
            name.replace("2", "\u0662"),
            name.replace("2", "9"),
            name.replace("20", "9999", 1),
            name.replace(".commit", ".deltacommit"),
            name.replace(".requested", ".inflight"),
            name.replace(".requested", ""),
            name[:at],
            f"{name}.tmp",
        )
    )
    if not new or new in (".", ".."):
        return ""
    files[f"{folder}/{new}"] = files.pop(path)
    return f"to {new}"


def _copy(files: Contents, path: str, names: list[str], random: Random) -> str:
    copied = {path: files[path]}
    told = _rename(copied, path, names, random)
    files.update(copied)
    return told


Kind = Callable[[Contents, str, list[str], Random], str]
_BY_BYTES: tuple[Kind, ...] = (_flip, _flip, _flip, _put_bytes, _cut, _drop_middle, _splice, _double, _bracket)
_BY_STRUCTURE: tuple[Kind, ...] = (_structure,)
_OF_FILES: tuple[Kind, ...] = (_remove, _empty, _swap, _rename, _rename, _copy)


def edit_plan(text: str, random: Random) -> tuple[str, str]:
    """A plan file with some of its lines changed by hand, and its checksum made right; what was done, in words."""
    lines = [json.loads(line) for line in text.splitlines()[:-1]]
    done = []
    for _ in range(random.choice((1, 1, 2))):
        at = random.choice((0, random.randrange(len(lines))))
        if at and random.random() < 0.1:
            lines.insert(at, copy.deepcopy(lines[at]))
            done.append("a line twice")
        else:
            done.append(change(lines[at], random, gentle=random.random() < 0.7))
    written = [json.dumps(line) + "\n" for line in lines]
    digest = hashlib.sha256("".join(written).encode()).hexdigest()
    end = {"end": True, "ops": len(lines) - 1, "files": 0, "bytes": 0, "sha256": digest}
    return "".join([*written, json.dumps(end) + "\n"]), ", ".join(done)


def pack(changes: dict[str, bytes | None]) -> dict[str, str | None]:
    """Changed contents as text for a kept case."""
    from base64 import b64encode

    return {k: None if v is None else b64encode(zlib.compress(v, 9)).decode() for k, v in changes.items()}


def unpack(kept: dict[str, str | None]) -> dict[str, bytes | None]:
    """What ``pack`` packed."""
    from base64 import b64decode

    return {k: None if v is None else zlib.decompress(b64decode(v)) for k, v in kept.items()}
