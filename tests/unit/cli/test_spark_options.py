from __future__ import annotations

import pytest
from click.testing import CliRunner

from lakemeta.cli.main import cli
from lakemeta.errors import OptionError
from lakemeta.storage import open_storage


@pytest.mark.parametrize("option", ["--spark-master=local[2]", "--spark-conf=spark.ui.enabled=false"])
def test_settings_of_spark_need_spark(option: str, tmp_path) -> None:
    """They would do nothing with local threads, so they are refused there."""
    from support.hudi_cases import load_cases

    root = load_cases()["1.2.0__cow__commits1"].unpack(tmp_path)
    result = CliRunner().invoke(cli, ["plan", "clean", root, option])
    assert isinstance(result.exception, OptionError)
    assert "belong to --executor spark" in str(result.exception)


def test_credentials_are_in_no_repr() -> None:
    """A storage travels to workers with its credentials; what is logged or shown of it has none."""
    storage, _ = open_storage("s3://bucket/t", {"key": "AKIDEXAMPLE", "secret": "hush"})
    assert "hush" not in f"{storage!r} {storage}"
    assert "AKIDEXAMPLE" not in f"{storage!r} {storage}"
