"""lakemeta on workers that do not have it: shipped as a wheel by spark-submit; and what is said if it is missing."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from contract.spark_cluster import PROCESSES, SMALL, needs_spark
from support.hudi_cases import HudiCase, data_files, load_cases

pytestmark = [pytest.mark.spark, needs_spark]
ROOT = Path(__file__).resolve().parents[2]
CASE = "1.2.0__cow__commits1"
ENTRY_SCRIPT = ROOT / "docs" / "examples" / "lakemeta_submit.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree, under a name that Spark puts on the workers' path: it does so for .zip only."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("lakemeta-*.whl")).rename(folder / "lakemeta.zip")


def python_without_lakemeta(folder: Path, *, dependencies: bool) -> Path:
    """An environment whose Python has what lakemeta needs, or nothing at all, and in no case lakemeta."""
    venv.create(folder, symlinks=True)
    if dependencies:
        packages = next(folder.glob("lib/python*/site-packages"))
        for found in (path for place in site.getsitepackages() for path in Path(place).iterdir()):
            if "lakemeta" not in found.name and not (packages / found.name).exists():
                (packages / found.name).symlink_to(found)
    return folder / "bin" / "python"


def submit(arguments: list[str], cwd: Path, python: Path) -> subprocess.CompletedProcess[str]:
    """Run spark-submit on a cluster of processes whose workers run ``python``."""
    import pyspark

    home = Path(pyspark.__file__).parent
    conf = [f"--conf={key}={value}" for key, value in SMALL.items() if "PYTHONPATH" not in key]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("PYTHONPATH", None)
    command = [str(home / "bin" / "spark-submit"), "--master", PROCESSES, *conf, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_spark_submit_ships_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The documented entry script with --py-files runs the whole command line."""
    case = load_cases()[CASE]
    root = case.unpack(tmp_path / "t")
    settings = [word for key, value in case.options.items() for word in ("--set", f"{key}={value}")]
    clean = ["clean", root, *settings, "--now", case.now.isoformat(), "--yes", "--output", "jsonl"]
    python = python_without_lakemeta(tmp_path / "env", dependencies=True)
    done = submit(["--py-files", str(wheel), str(ENTRY_SCRIPT), *clean, "--executor", "spark"], tmp_path, python)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["deleted_files"] == len(
        case.planned_files()
    )
    assert data_files(root) == case.left_files()


def test_a_packed_environment(wheel: Path, tmp_path: Path) -> None:
    """Workers run the Python of an archive, which has lakemeta; they find it nowhere else."""
    case = load_cases()[CASE]
    environment = tmp_path / "env"
    python = python_without_lakemeta(environment, dependencies=True)
    zipfile.ZipFile(wheel).extractall(next(environment.glob("lib/python*/site-packages")))
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(environment, ".")
    arguments = ["--archives", f"{tmp_path / 'env.tar.gz'}#env", "--conf=spark.pyspark.python=./env/bin/python"]
    done = submit([*arguments, str(_planning_script(tmp_path, case))], tmp_path, python)
    assert "planned with spark" in done.stdout, done.stdout + done.stderr[-3000:]


def test_a_worker_without_lakemeta(tmp_path: Path) -> None:
    """A sentence says which module is missing and where to read on; nothing is a Java trace."""
    case = load_cases()[CASE]
    python = python_without_lakemeta(tmp_path / "env", dependencies=False)
    done = submit([str(_planning_script(tmp_path, case))], tmp_path, python)
    assert "a worker has no module lakemeta_spark; docs/spark.md" in done.stdout, done.stderr[-3000:]
    assert "\tat " not in done.stdout


def _planning_script(folder: Path, case: HudiCase) -> Path:
    """A script whose driver finds lakemeta in this source tree; it plans a clean of several partitions."""
    root = case.unpack(folder / "t")
    script = folder / "plan.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom lakemeta_spark import SparkExecutor\n"
        "from lakemeta.hudi import HudiTable\nfrom lakemeta.errors import ExecutorError\n"
        f"with SparkExecutor.start() as spark:\n    try:\n"
        f"        HudiTable.open({root!r}).plan_clean({case.options!r}, executor=spark)\n"
        "        print('planned with spark')\n    except ExecutorError as error:\n        print(error)\n"
    )
    return script
