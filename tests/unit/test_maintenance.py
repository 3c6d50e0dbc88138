"""Steps of maintenance: in order, with options and thresholds of their own."""

from __future__ import annotations

import pytest

from lakemeta.errors import OptionError
from lakemeta.maintenance import Duty, files_gained, steps
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete
from lakemeta.report import Report

DUTIES = (Duty("first", "file", files_gained), Duty("second", "file", files_gained))


def planned(service, options) -> Plan:
    header = PlanHeader(service, "/t", 2, None, options)
    return Plan(header, [Delete("", f"f{n}", 1, "old") for n in range(int(options.get("files", 1)))])


def made(settings=(), at_least=(), skip=()):
    return steps(
        DUTIES,
        planned,
        lambda plan: Report(plan.header.plan, "/t", "1"),
        settings=dict(settings),
        at_least=dict(at_least),
        skip=skip,
    )


def test_steps_come_in_order_with_their_options() -> None:
    """Each service gets the options that name it, dots in their names and all; those skipped do not come."""
    found = made({"second.files": "3", "second.a.b": "x"})
    assert [step.duty.service for step in found] == ["first", "second"]
    assert [step.plan().header.options for step in found] == [{}, {"files": "3", "a.b": "x"}]
    assert [step.duty.service for step in made(skip=["first"])] == ["second"]


def test_a_step_is_due_from_its_threshold_on() -> None:
    """One file is enough unless more are asked for; nothing gained is never due."""
    first, second = made({"first.files": "0", "second.files": "3"}, {"second": "4"})
    assert not first.is_due(first.plan())
    assert not second.is_due(second.plan())
    assert all(step.is_due(step.plan()) for step in made({"second.files": "4"}, {"second": "4"}))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"settings": {"files": "1"}}, "files names no service; write SERVICE.KEY=VALUE with one of first, second"),
        ({"settings": {"third.files": "1"}}, "third.files names no service"),
        ({"settings": {"first.": "1"}}, "first. names no service"),
        ({"at_least": {"third": "1"}}, "third is no service of this table; its services are first, second"),
        ({"at_least": {"first": "0"}}, "'first' is set to 0 but must be a whole number from 1 on"),
        ({"at_least": {"first": "many"}}, "'first' is set to many"),
        ({"skip": ["third"]}, "third is no service of this table"),
    ],
)
def test_what_names_no_service_is_refused(asked, said) -> None:
    """By one sentence that names those there are."""
    with pytest.raises(OptionError) as caught:
        made(**asked)
    assert said in str(caught.value)
