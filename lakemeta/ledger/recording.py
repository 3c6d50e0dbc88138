"""Doing work as a run (I/O)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakemeta.deletion import Door
from lakemeta.errors import LakemetaError
from lakemeta.ledger.lines import RUN
from lakemeta.ledger.run import Run, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.report import Report

_log = logging.getLogger(__name__)


def recorded(run: Run, work: Callable[[], Report]) -> Report:
    """Do some work as a run: what is deleted by its plan belongs to the run, and the report names its ledger.

    The ledger of a run that is refused before it deletes anything goes again.
    """
    try:
        with running(run):
            report = work()
    except LakemetaError:
        _withdraw(run)
        raise
    return run.end(report)


def _withdraw(run: Run) -> None:
    if run.path is None or run.place is None or run.has_announced:
        return
    try:
        Door(run.place.storage, run.place.folder, rf"{RUN}\.jsonl").delete_files([run.path])
    except LakemetaError as error:
        _log.warning("the ledger of a run that deleted nothing stays: %s", error)
