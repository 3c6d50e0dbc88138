"""Where pyiceberg has its configuration, for messages about it (I/O)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lakemeta.iceberg.catalogs.catalog_errors import reason

_FILE: Final = ".pyiceberg.yaml"


def configuration() -> str:
    """The configuration file that pyiceberg reads, or where it would look for one."""
    home = os.environ.get("PYICEBERG_HOME")
    places = [*([Path(home)] if home else []), Path.home(), Path.cwd()]
    found = next((place / _FILE for place in places if (place / _FILE).is_file()), None)
    return str(found) if found else f"{_FILE} in $PYICEBERG_HOME, the home directory or here"


def not_configured(name: str, error: Exception) -> str:
    """Why a catalog is not configured, and what to do; pyiceberg names a flag of its own command."""
    said = reason(error)
    if not said.startswith("URI missing"):
        return f"{said}; correct {configuration()}"
    variable = f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__URI"
    return f"it has no uri; give --storage-option uri=..., set {variable}, or write it into {configuration()}"
