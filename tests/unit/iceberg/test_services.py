"""The services of Iceberg tables: found by name, each with its commands."""

from __future__ import annotations

from importlib import import_module

import attrs
import pytest

from lakemeta.cli.main import cli, plan
from lakemeta.errors import OptionError, StalePlanError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.services import SERVICES, service_of
from lakemeta.plan import Plan, PlanHeader


@pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))
def test_a_service_is_all_there(service) -> None:
    """What the list names exists, and the command line has both of its commands."""
    for name in (service.planner, service.applier):
        module, _, function = name.partition(":")
        assert callable(getattr(import_module(module), function))
    assert service.name in cli.commands
    assert service.name in plan.commands


def test_unknown_services_are_refused(tmp_path) -> None:
    """By name, with the ones there are; plans of other formats and services too."""
    with pytest.raises(OptionError, match="there is no service vacuum of Iceberg tables; known are "):
        IcebergTable(None).plan("vacuum")
    header = PlanHeader("hudi.clean", "/t", 9, None)
    for other in ("hudi.clean", "iceberg.vacuum", "rewrite-data-files"):
        with pytest.raises(StalePlanError, match=f"{other} is no plan for an Iceberg table"):
            service_of(Plan(attrs.evolve(header, plan=other), []))
