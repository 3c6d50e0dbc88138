"""What can be asked about what runs have deleted of one table, of either format (I/O)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import attrs

from lakemeta.environment import Environment, utc_now
from lakemeta.executor import working_on
from lakemeta.undo.history import History, history
from lakemeta.undo.purge import Quarantined, purge, quarantined
from lakemeta.undo.restore import restore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lakemeta.executor import Executor
    from lakemeta.report import Report
    from lakemeta.undo.home import Home


@attrs.frozen(eq=False)
class Undo:
    """The past of one table. ``home_at`` finds it, with ledgers in a directory by path or URL, None for its own.

    ``ledgers`` is that directory, if it was given to the runs.
    """

    home_at: Callable[[str | None], Home]
    ledgers: str | None = None

    def history(self) -> History:
        """What runs have deleted of the table."""
        return history(self.home_at(self.ledgers))

    def restore(
        self,
        ledger: str,
        files: Collection[str] = (),
        *,
        executor: Executor | None = None,
        env: Environment | None = None,
    ) -> Report:
        """Bring back what the run with the ledger at a path or URL quarantined, or the named files of it.

        No file is ever replaced.

        Raises:
            OptionError: the run has no such file.
            UnsupportedFeatureError: the run deleted its files.
            CorruptMetadataError: the ledger is damaged, or another table's.
        """
        home = self.home_at(None)
        folder, _, name = ledger.rpartition("/")
        place = home.ledgers.moved(folder or ".")
        if (place.storage, place.folder) != (home.ledgers.storage, home.ledgers.folder):
            home = self.home_at(folder or ".")
        with working_on(f"restore files of {home.ledgers.table}"):
            return restore(home, home.ledgers.named(name), files, env or Environment(), executor)

    def quarantined(self, older_than: timedelta = timedelta(0)) -> list[Quarantined]:
        """What waits in quarantine, of runs that began so long ago."""
        return quarantined(self.home_at(self.ledgers), utc_now() - older_than)

    def purge(
        self, runs: Collection[Quarantined], *, executor: Executor | None = None, env: Environment | None = None
    ) -> Report:
        """Delete for good what waits of some runs. Raises StorageError for what cannot be deleted."""
        home = self.home_at(self.ledgers)
        with working_on(f"purge {home.ledgers.table}"):
            return purge(home, list(runs), env or Environment(), executor)
