"""When a failed commit is tried again, and an unanswered one looked for: the table's ``commit.*`` properties.

The rules are those of Iceberg's Tasks.runTaskWithRetry with an exponential factor of 2: only a conflict is
worth another try, and the total time is looked at after the second failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.spec.properties import int_property

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTOR: Final = 2.0
JITTER: Final = 0.1


@attrs.frozen(slots=True)
class RetryPolicy:
    """How often and how long to try; times are ms."""

    num_retries: int = 4
    min_wait_ms: int = 100
    max_wait_ms: int = 60_000
    total_timeout_ms: int = 1_800_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The policy of a table; raises OptionError if a property is not a number."""
        return cls(
            int_property(properties, "commit.retry.num-retries", 4),
            int_property(properties, "commit.retry.min-wait-ms", 100),
            int_property(properties, "commit.retry.max-wait-ms", 60_000),
            int_property(properties, "commit.retry.total-timeout-ms", 1_800_000),
        )

    @classmethod
    def of_status_checks(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """How a table is looked at for a commit whose answer was lost: ``commit.status-check.*``."""
        return cls(
            int_property(properties, "commit.status-check.num-retries", 3),
            int_property(properties, "commit.status-check.min-wait-ms", 1_000),
            int_property(properties, "commit.status-check.max-wait-ms", 60_000),
            int_property(properties, "commit.status-check.total-timeout-ms", 1_800_000),
        )

    def tries_again(self, attempt: int, elapsed_ms: float) -> bool:
        """True if a conflict in attempt number ``attempt`` (from 1) is followed by another attempt."""
        out_of_time = elapsed_ms > self.total_timeout_ms and attempt > 1
        return attempt <= self.num_retries and not out_of_time

    def wait_ms(self, attempt: int, chance: float) -> int:
        """The pause after attempt number ``attempt``; ``chance`` in [0, 1) adds up to a tenth of it."""
        pause = int(min(self.min_wait_ms * FACTOR ** (attempt - 1), self.max_wait_ms))
        return pause + int(pause * JITTER * chance)
