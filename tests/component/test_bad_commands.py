"""Commands that cannot do what they are asked: a sentence, status 1, no traceback; and --help."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.clock import patience
from tests.programs import ended, script

PROJECT = Path(__file__).parents[2]
TESTS = PROJECT / "tests"
SPARKS = """\
sparks:
  spark-a: {local: true, hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [spark-a], trusts: [tool-parser-plugin]}
"""
SPARK = ("inventory.py", "deploys/spark.py", "--dry")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A clone, with this one's code, and an inventory of this machine."""
    root = tmp_path / "site"
    (root / "inventory").mkdir(parents=True)
    (root / "group_data").mkdir()
    for name in ("inventory.py", "config.py"):
        shutil.copy(PROJECT / name, root / name)
    for name in ("deploys", "files", "sparkwright"):
        (root / name).symlink_to(PROJECT / name)
    (root / "inventory/sparks.yaml").write_text(SPARKS)
    return root


def env(site: Path) -> dict[str, str]:
    """A home of its own, for the files of errors."""
    return os.environ | {"HOME": str(site.parent), "TMPDIR": str(site.parent)}


def pyinfra(site: Path, *words: str) -> str:
    """Run pyinfra, which must fail; return all that it says."""
    done = forked.run(words, cwd=site, env=env(site))
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Traceback" not in said
    assert "GitHub" not in said
    assert not (site / "pyinfra-debug.log").exists()
    return said


def shell(site: Path, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash, in which $PYTHON is this one."""
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    done = ended(words, cwd=site, env=env(site) | {"PYTHON": sys.executable})
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("sparks", "\nx = = 1\n", "group_data/sparks.py:2: found no Python (invalid syntax)"),
        ("sparks", "def f():\n    return 1 / 0\n\nx = f()\n", ":2: found ZeroDivisionError: "),
        ("sparks", "swappiness: 10\n", ":1: found `swappiness: 10`, which sets nothing; expected"),
        ("sparks", "import sys\nsys.exit(3)\n", "group_data/sparks.py:2: found SystemExit: 3"),
        ("chta", "swappiness = 10\n", "group_data/chta.py: found a file for no replica; did you m"),
        ("sparks", "", "sparks.py: cannot be read ([Errno 22] it is no regular file"),
    ],
)  # fmt: skip
def test_group_data(site: Path, name: str, text: str, said: str) -> None:
    file = site / f"group_data/{name}.py"
    file.write_text(text) if text else os.mkfifo(file)
    told = pyinfra(site, *SPARK)
    assert said in told
    assert "Connecting" not in told


def test_a_locale_of_ascii(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python's UTF-8 mode off, as few have it."""
    for name, value in {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}.items():
        monkeypatch.setenv(name, value)
    (site / "group_data/sparks.py").write_text(
        "# für alle\nswappiness = 'grün'\n", encoding="utf-8"
    )
    done = shell(site, f"$PYTHON -m pyinfra {' '.join(SPARK)}")
    assert done.returncode == 1
    assert "group_data/sparks.py: swappiness: found 'gr\\xfcn'; expected a whole" in done.stderr
    text = (PROJECT / "files/recipes/lab-tiny.yaml").read_text(encoding="utf-8")
    (site / "inventory/mine.yaml").write_text(f"# grün\n{text}", encoding="utf-8")
    done = shell(site, "$PYTHON -m sparkwright recipes check inventory/mine.yaml")
    assert "its file is valid" in done.stdout, done.stderr


def test_group_data_of_another_inventory(site: Path) -> None:
    (site / "inventory/staging.yaml").write_text(SPARKS.replace("chat", "tools"))
    for name in ("staging", "tools", "web"):
        (site / f"group_data/{name}.py").write_text("swappiness = 10\n")
    inventory = site / "inventory.py"
    inventory.write_text(inventory.read_text() + '\nweb = ["web.example.org"]\n')
    done = forked.run(["inventory.py", "debug-inventory"], cwd=site, env=env(site))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SPARK, "--data", "weights"), "--data weights: found no value; expected NAME=VALUE"),
        ((*SPARK, "--exclude", "spark-b"), "--exclude: found spark-b, which matches nothing; did"),
        ((*SPARK, "--limit", "chat", "--limit", "chta"), "--limit: found chta, which matches n"),
        ((*SPARK, "--no-wait"), "found --no-wait; expected it left out: where a step fails on"),
        ((*SPARK, "--data", "swapiness=9"), "--data swapiness: found a name that nothing reads; d"),
        ((*SPARK, "--key", "/nosuch"), "--ssh-key: found no file /nosuch; expected a private key"),
        ((*SPARK, "--data", "fabric=verify"), "--data fabric: found verify, and no pair in i"),
    ],
)  # fmt: skip
def test_the_command_line(site: Path, words: tuple[str, ...], said: str) -> None:
    told = pyinfra(site, *words)
    assert said in told
    assert "Connecting" not in told


@pytest.mark.parametrize(
    ("sudo", "said"),
    [
        (None, "spark-a: found no sudo; expected it. On the Spark, as root: apt-get install sudo"),
        ("exit 1", "spark-a: found sudo that asks for a password; expected none for this user"),
    ],
)
def test_sudo(site: Path, monkeypatch: pytest.MonkeyPatch, sudo: str | None, said: str) -> None:
    programs = site / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    if sudo:
        script((programs / "sudo"), f"#!/bin/sh\n{sudo}\n")
    monkeypatch.setenv("PATH", str(programs))
    assert said in pyinfra(site, *SPARK)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise KeyError('hf_abcdefghijkl\\x1b[2J')", "KeyError: '[a key]"),
        ("import gevent; gevent.spawn(lambda: 1 / 0).get()", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_fault_of_ours(site: Path, line: str, said: str) -> None:
    (site / "deploy.py").write_text(f"password = 'swordfish'\n{line}\n")
    told = pyinfra(site, "-y", "inventory.py", "deploy.py").splitlines()
    first = told.index("`pyinfra inventory.py deploy.py` failed by a fault of the program:")
    assert told[first + 1].startswith(said)
    assert "\x1b" not in told[first + 1]
    assert told[first + 2].endswith("pyinfra inventory.py deploys/doctor.py --data report=-")
    (file,) = site.parent.glob("sparkwright-error-*.txt")
    assert str(file) in told[first + 2]
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert 'File "deploy.py", line 2' in text
    assert "swordfish" not in text
    assert "abcdefghijkl" not in text.replace(line, "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("$PYTHON -m deploys.spark", "found spark.py run by Python; expected: sparkwright apply"),
        (
            "mkdir gone; cd gone; rmdir ../gone; PYTHONPATH=$OLDPWD $PYTHON -c "
            "'from sparkwright.cli.main import main; raise SystemExit(main())' status",
            "found no current folder; expected one: cd to your site",
        ),
        ("$PYTHON -m sparkwright -i x keys list", "inventory/x.yaml: found no such file; expected"),
        ("$PYTHON -m sparkwright recipes list > /dev/full", "standard output: cannot be rea"),
    ],
)  # fmt: skip
def test_programs(site: Path, line: str, said: str) -> None:
    done = shell(site, line)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves(site: Path) -> None:
    done = shell(site, "{ sleep 0.2; $PYTHON -m sparkwright recipes memory qwen3.5-35b; } | true")
    assert (done.returncode, done.stderr) == (1, "")


PROGRAMS = ["sparkwright", *sorted(f"tests.{p.parent.name}" for p in TESTS.glob("*/__main__.py"))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_says_what_it_is_for(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-m", program, "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []
