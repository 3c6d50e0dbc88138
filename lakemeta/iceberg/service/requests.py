"""What is asked of a service: to plan, or to apply a plan (I/O: both hold what reaches the table)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.environment import Environment
from lakemeta.errors import OptionError
from lakemeta.executor import Executor, LocalExecutor
from lakemeta.safeguards import Safeguards

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakemeta.events import Progress
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.plan import Plan


@attrs.frozen(eq=False, kw_only=True)
class PlanRequest:
    """A plan of one service: its options by the names of Iceberg's procedure, a filter, and the time in ms."""

    place: Place
    now_ms: int
    options: Mapping[str, str] = attrs.field(factory=dict)
    where: str | None = None
    executor: Executor = attrs.field(factory=LocalExecutor)

    def refuse_where(self, service: str) -> None:
        """Raise OptionError if a filter is given to a service that takes none."""
        if self.where is not None:
            raise OptionError(f"{service} takes no filter; leave --where out")


@attrs.frozen(eq=False, kw_only=True)
class ApplyRequest:
    """The application of a plan; without ``executor`` work is done on this machine, as the plan's options say.

    ``now_ms`` is the present in ms, by the machine's clock unless the caller says another. ``on_progress`` is called
    with how far a rewrite has come, in any thread but one call at a time.
    """

    place: Place
    plan: Plan
    now_ms: int = attrs.field(factory=lambda: Environment().now_ms())
    executor: Executor | None = None
    env: Environment = attrs.field(factory=Environment)
    on_progress: Callable[[Progress], None] | None = None
    safeguards: Safeguards = attrs.field(factory=Safeguards)
