"""Another pyinfra project, in a folder and an environment of its own, uses the library."""

import json
import re
import subprocess
import venv
from pathlib import Path

import pytest

from tests.driver.product import PROJECT, here
from tests.driver.sparks import current
from tests.lab.spark import Handle
from tests.lab.state import FLEET

INVENTORY = """\
from pathlib import Path
from sparkwright.run.inventory.groups import for_pyinfra
globals().update(for_pyinfra(Path(__file__).resolve().parent, Path("sparks.yaml")))
"""
DEPLOY = """\
from io import StringIO
from pyinfra.operations import files
from sparkwright.deploy import converge
files.put(name="Before", src=StringIO("ours"), dest="/etc/before")
converge()
files.put(name="After", src=StringIO("ours"), dest="/etc/after")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's programs, into which the library was installed by pip."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    locked = re.findall(r"^\S+==\S+", (PROJECT / "requirements.lock").read_text(), re.MULTILINE)
    (folder / "versions.txt").write_text("\n".join(locked))
    pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    words = [*pip, "--constraint", folder / "versions.txt", f"{PROJECT}[verify]"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_it_converges_a_spark_beside_its_own_operations_and_verifies_it(
    python: Path, tmp_path: Path, spark: Handle
) -> None:
    spark.reset()
    lab = (PROJECT / "group_data/lab.py").read_text()
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/all.py").write_text(f"_sudo = True\n{lab}")
    (tmp_path / "sparks.yaml").write_text(FLEET.read_text())
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "deploy.py").write_text(DEPLOY)

    def output(*words: str | Path) -> str:
        """Run a program in the project's folder, which must succeed; return what it prints."""
        done = here(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def run() -> set[str]:
        """Return the names of the operations that changed something."""
        said = output(python / "pyinfra", "inventory.py", "deploy.py", "-y", "--json")
        operations = json.loads(said)["results"]["operations"]
        return {operation["name"] for operation in operations if operation["success"]}

    assert {"Before", "After"} < run()
    assert spark.run("cat /etc/before /etc/after").stdout == "oursours"
    assert current(spark).startswith("lab-tiny-")
    assert run() == set()
    said = output(python / "pytest", "--pyargs", "sparkwright.verify")
    _, proved = said.split("proved on spark1")
    for sentence in ("earlyoom guards the memory", "the only engine", "chat: ", "wants the key"):
        assert sentence in proved, said
