"""Mods: a Spark builds an image that they changed and serves it, or keeps what served before.

The tests of this module build on one another, in order.
"""

import io
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pip
import pytest
import requests
import yaml

from host.artifacts.image.build import build_command, context
from sparkwright.declared.recipe.build import build_files
from sparkwright.declared.recipe.mods import read_mods
from sparkwright.declared.recipe.values import ImageMods
from tests.driver.client import PORT, authorization
from tests.driver.declared import RECIPES, replica
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, Run, pyinfra
from tests.driver.sparks import current
from tests.lab.spark import Handle
from tests.lab.state import PROJECT

MODS = PROJECT / "files/mods"
BASE = "10.213.0.1:5000/sparkwright/vllm-cpu:0.32.0"
# Something that every engine's own Python says to a client.
OWNER = r"""
packages=/usr/local/lib/python3.11/dist-packages
grep -rlE 'owned_by.*"vllm"' --include='*.py' $packages |
  xargs sed -i -E '/owned_by/s/"vllm"/"lab-owner"/'
"""
# What the field's mods do: a file for the engine's own folder, a package from a wheel beside it.
EXTRAS = r"""
cp lab.jinja $WORKSPACE_DIR/lab.jinja
PYTHONPATH=pip.zip python3 -m pip install --no-index --break-system-packages ./lab*.whl
"""
TEMPLATE = b"{% for each in messages %}{{ each.content }}{% endfor %}"
IMAGES = "sudo docker image ls --format '{{.Repository}}:{{.Tag}} {{.ID}}' sparkwright/mods"
JOURNAL = "sudo journalctl --no-pager -o cat -u 'image-build@*'"
ORDERS = "ls /opt/qwen36/manifests | grep image-build@ || true"


@contextmanager
def mod(
    name: str, script: str, files: Mapping[str, bytes] = MappingProxyType({})
) -> Iterator[Path]:
    """Have a mod, until the block ends; its run.sh begins with a shell and `set -e`."""
    folder = MODS / name
    existed = MODS.exists()
    folder.mkdir(parents=True)
    try:
        write(folder, script)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder)
        if not existed:
            MODS.rmdir()


def write(folder: Path, script: str) -> None:
    (folder / "run.sh").write_text(f"#!/bin/bash\nset -e\n{script}\n")


def wheel(name: str, text: str) -> bytes:
    about = f"{name}-1.0.dist-info"
    return _zipped(
        {
            f"{name}.py": text,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/RECORD": "",
        }
    )


def zipped_pip() -> bytes:
    """Return this Python's own pip as an archive that Python can run: the lab's image has none."""
    folder = Path(pip.__file__).parent
    return _zipped(
        {
            f"pip/{path.relative_to(folder)}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
    )


def _zipped(files: Mapping[str, str | bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return archive.getvalue()


@pytest.fixture(scope="module", autouse=True)
def recipe(pair: Pair) -> Iterator[Path]:
    """A recipe with two mods of a site."""
    file = RECIPES / "lab-mods.yaml"
    content = {
        "extends": "lab-tiny",
        "description": "lab-tiny on an image that two mods have changed.",
        "source": "A test.",
        "proven": "By this test.",
        "image": {"base": BASE, "mods": ["lab-extras", "lab-owner"]},
        "args": {"chat-template": "lab.jinja"},
    }
    file.write_text(yaml.safe_dump(content))
    extras = {
        "lab_wheel-1.0-py3-none-any.whl": wheel("lab_wheel", "WORD = 'from a wheel'"),
        "lab.jinja": TEMPLATE,
        "pip.zip": zipped_pip(),
    }
    with (
        mod("lab-owner", OWNER),
        mod("lab-extras", EXTRAS, extras),
        replica(recipe="lab-mods", sparks=["spark1"]),
    ):
        try:
            yield file
        finally:
            file.unlink()


@contextmanager
def trusting() -> Iterator[None]:
    """Let the replica's words allow the mods as they are now, until the block ends."""
    words = [each.word for each in read_mods(["lab-extras", "lab-owner"])]
    with replica(trusts=["tool-parser-plugin", *words]):
        yield


def deploy(*words: str) -> Run:
    """Run the deploy for the Spark that serves."""
    return pyinfra(DEPLOY, "--limit", "spark1", *words)


def owner(spark: Handle) -> str:
    """Return whom the engine calls the owner of its model."""
    url = f"http://{spark.address}:{PORT}/v1/models"
    answer = requests.get(url, headers=authorization(), timeout=60)
    return str(answer.json()["data"][0]["owned_by"])


@pytest.fixture(scope="module")
def built(pair: Pair) -> Handle:
    """spark1 serves the image with both mods."""
    with trusting():
        deploy().succeeded()
    return pair.head


def test_without_the_words_nothing_is_touched_and_all_is_shown(pair: Pair) -> None:
    before = pair.head.run(IMAGES).stdout, pair.head.run(ORDERS).stdout
    run = deploy().refused("| cp lab.jinja $WORKSPACE_DIR/lab.jinja")
    for mod in read_mods(["lab-extras", "lab-owner"]):
        run.says(mod.word, f"mod {mod.name}: {len(mod.files)} file")
    assert re.search(r"\| PYTHONPATH=.*pip install .*\./lab\*\.whl", run.output)
    assert (pair.head.run(IMAGES).stdout, pair.head.run(ORDERS).stdout) == before


def test_a_plan_shows_what_the_mods_do(pair: Pair) -> None:
    with trusting():
        deploy("--dry").succeeded().says("mod lab-owner: 1 file", "xargs sed -i -E")


def test_the_engine_that_serves_has_what_the_mods_did(built: Handle, pair: Pair) -> None:
    assert pair.ask()
    assert owner(built) == "lab-owner"
    said = built.run(JOURNAL).stdout
    assert "mod lab-owner has written 1 file: /usr/local/lib/python3.11/dist-packages/" in said
    assert "vLLM 0.32.0+cpu, as before" in said
    inside = (
        "sudo docker exec $(sudo docker ps -q) sh -c "
        "'cat lab.jinja; python3 -c \"import lab_wheel; print(lab_wheel.WORD)\"'"
    )
    assert built.run(inside).stdout == f"{TEMPLATE.decode()}from a wheel\n"


def test_a_second_run_changes_nothing(built: Handle) -> None:
    before = built.run(IMAGES).stdout, built.run(JOURNAL).stdout
    with trusting():
        assert deploy().succeeded().changed == frozenset()
        assert deploy("--dry").succeeded().plan == frozenset()
    assert (built.run(IMAGES).stdout, built.run(JOURNAL).stdout) == before


def test_a_mod_that_changes_or_fails_leaves_what_serves(built: Handle, pair: Pair) -> None:
    release = current(built)
    with trusting():
        write(MODS / "lab-owner", "echo 'found nothing to change'\nexit 3")
        deploy().fails("has changed since it was allowed")
    with trusting():
        run = deploy()
    write(MODS / "lab-owner", OWNER)
    run.fails("found nothing to change", "mod lab-owner: run.sh ended with status 3")
    assert current(built) == release
    assert pair.ask()
    assert owner(built) == "lab-owner"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 300 > /dev/null &", "run.sh left sleep 300 running; expected changes of files"),
        ("rm /usr/local/bin/vllm", "found no command `vllm` in the image"),
        ("rm -r $PACKAGES/vllm $PACKAGES/vllm.py || true", "vLLM cannot be imported any more"),
        ("echo 'def (' >> $FILE", "a file of vLLM that it has written is no Python any more"),
        ("sed -i s/^Version:.*/Version:\\ 0.33.0/ $PACKAGES/vllm-*/METADATA", "found vLLM 0.33.0;"),
        ("exec 3<>/dev/tcp/10.213.0.1/5000", "Network is unreachable"),
    ],
)
def test_what_breaks_an_image_is_no_image(built: Handle, script: str, said: str) -> None:
    places = (
        "PACKAGES=/usr/local/lib/python3.11/dist-packages\n"
        "FILE=$(ls $PACKAGES/vllm.py $PACKAGES/vllm/__init__.py 2>/dev/null | head -n 1)\n"
    )
    with mod("lab-broken", places + script):
        done = build(built, ImageMods(base=BASE, mods=["lab-broken"]))
    assert done.returncode != 0
    assert said in done.stdout.decode()


def test_a_change_of_the_version_that_is_declared_is_taken(built: Handle) -> None:
    script = "sed -i s/^Version:.*/Version:\\ 0.33.0/ /usr/local/lib/python3.11/*/vllm-*/METADATA"
    with mod("lab-newer", script):
        done = build(built, ImageMods(base=BASE, mods=["lab-newer"], vllm="0.33.0"))
    assert done.returncode == 0, done.stdout.decode()
    assert "vLLM 0.33.0, was 0.32.0+cpu" in done.stdout.decode()
    built.run("sudo docker image rm sparkwright/mods:lab")


def build(spark: Handle, image: ImageMods) -> "subprocess.CompletedProcess[bytes]":
    """Build as build-image does, without its job."""
    shown = "sudo docker image ls --digests --format '{{.Repository}}@{{.Digest}}' '*/*/vllm-cpu'"
    words = build_command("sparkwright/mods:lab", spark.run(shown).stdout.split()[0], {})
    return subprocess.run(
        spark.ssh_command("sudo " + " ".join(words)),
        input=context(build_files(image)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=PROJECT,
        check=False,
    )
