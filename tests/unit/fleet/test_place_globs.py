"""Globs over places, against regular expressions made of the same parts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import OptionError
from lakemeta.fleet.place_globs import PlaceGlob

PART = st.sampled_from(["a", "b", "ab", "*", "a*", "?", "**"])
NAME = st.sampled_from(["a", "b", "ab", "ba", "abc"])


def pattern(parts: list[str]) -> str:
    """``/a/**/b`` as a regular expression: a part with its slash, or any number of them."""
    made = {"**": "(?:/[^/]+)*"}
    spelled = [made.get(part, "/" + part.replace("*", "[^/]*").replace("?", "[^/]")) for part in parts]
    return "/lake" + "".join(spelled)


@given(parts=st.lists(PART, max_size=5), names=st.lists(NAME, max_size=5))
def test_parts_are_compared_one_by_one(parts: list[str], names: list[str]) -> None:
    """As the regular expression says."""
    glob, url = PlaceGlob.of("/".join(["/lake", *parts])), "/".join(["/lake", *names])
    assert glob.matches(url) == bool(re.fullmatch(pattern(parts), url))


@given(parts=st.lists(PART, max_size=5), names=st.lists(NAME, max_size=5))
def test_going_down_from_the_fixed_part(parts: list[str], names: list[str]) -> None:
    """What a walk takes is what matches, and it gives up where nothing below can match."""
    glob = PlaceGlob.of("/".join(["/lake", *parts]))
    below = "/".join(["/lake", *names]).removeprefix(glob.fixed)
    url = glob.fixed + below
    if below and not below.startswith("/"):
        return
    states = glob.start()
    for name in below.split("/")[1:]:
        states = glob.step(states, name)
    assert glob.accepts(states) == glob.matches(url)


@pytest.mark.parametrize(
    ("glob", "url", "fixed"),
    [
        ("s3a://lake/**", "s3://lake/a/b", "s3a://lake"),
        ("s3://lake/gold/*/", "s3://lake/gold/t", "s3://lake/gold"),
        ("catalog://prod/sales.*", "catalog://prod/sales.eu.t", "catalog://prod"),
        ("catalog://prod/sales.t", "catalog://prod/sales.t", "catalog://prod/sales.t"),
        ("file:///lake/**", "/lake/t", "file:///lake"),
        ("/**", "/t", "/"),
        ("/lake/t", "/lake/t", "/lake/t"),
    ],
)
def test_urls(glob: str, url: str, fixed: str) -> None:
    """Schemes mean what they mean elsewhere; what has no wildcard is where the search begins."""
    made = PlaceGlob.of(glob)
    assert made.matches(url)
    assert made.fixed == fixed
    assert not made.matches("gs://lake/a/b")


@pytest.mark.parametrize("text", ["", "s3://", "s3://*/t", "s3:t", "catalog://*/a.b"])
def test_what_names_no_place(text: str) -> None:
    """A store, a bucket or a catalog has to be named."""
    with pytest.raises(OptionError):
        PlaceGlob.of(text)
