from __future__ import annotations

import pickle

import pytest

from lakemeta import errors
from lakemeta.errors import LakemetaError, OptionError

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakemetaError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_is_one_of_ours_and_travels(kind: type[LakemetaError]) -> None:
    """An error has a documented exit code, says its sentence, and survives the way back from a worker."""
    error = kind("t/x is cut off; restore it")
    assert str(error) == "t/x is cut off; restore it"
    assert kind.exit_code in (1, 2, 3, 5)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (kind, str(error))


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.TableNotFoundError, FileNotFoundError),
        (errors.OptionError, ValueError),
        (errors.PathExistsError, FileExistsError),
        (errors.PathNotFoundError, FileNotFoundError),
    ],
)
def test_where_python_has_a_name_ours_is_one_of_it(kind: type[LakemetaError], builtin: type[Exception]) -> None:
    """Callers may catch the built-in error they know."""
    assert issubclass(kind, builtin)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("retain.commits", "; did you mean commits.retain?"), ("zzz", ""), ("commits.retained", "; did you mean")],
)
def test_an_unknown_option_names_the_nearest_known_one(name: str, hint: str) -> None:
    """A typing mistake is answered with what was meant, nonsense with nothing."""
    message = str(OptionError.unknown(name, ["commits.retain", "hours.keep"]))
    assert message.startswith(f"unknown option {name}{hint}")
    assert bool(hint) == ("did you mean" in message)


def test_a_message_has_an_end() -> None:
    """What metadata of strangers names may be of any length; the middle goes, what to do stays."""
    message = str(LakemetaError("t/x has " + "9" * 100_000 + "; restore it"))
    assert len(message) < 4000
    assert message.startswith("t/x has 999")
    assert message.endswith("999; restore it")
