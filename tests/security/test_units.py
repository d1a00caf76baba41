"""The walls around our units: how exposed systemd finds them, and what each can reach.

What they are worth is seen where systemd runs them: tests/system.
"""

import re
import shutil
from pathlib import Path

import pytest

from sparkwright.common.render import render
from tests.programs import ended

FILES = Path(__file__).parents[2] / "files"
UNITS = {path.name: path for path in sorted(FILES.glob("**/*.service"))}
# systemd's own scale goes from 0 to 10; what is above this it calls MEDIUM or worse.
BOUND = 4.0
# Whose work is done by Docker: whoever reaches its socket is root.
DOCKER = {
    *("vllm@.service", "switch@.service", "benchmark.service"),
    *("image@.service", "image-build@.service", "image-copy.service", "fabric-image@.service"),
}
# What each of these folders is there for.
OWN = {
    "/opt/qwen36/secrets": {"vllm@.service"},
    "/opt/qwen36/door": {"door.service", "door@.service", "switch@.service", "turns.service"},
}
VERSION = 252
SETTINGS = {
    "root": "/opt/qwen36",
    "beside": " 192.168.100.11 192.168.100.12 192.168.100.13",
    "megahertz": 2000,
    "spark": "spark-a",
    "ends": 1795240000,
    "guarded": "1 a b",
    "clients": "192.168.100.12",
    "doors": ["192.168.1.20"],
    "elsewhere": ["/home/nvidia/.cache/huggingface", "/mnt/nas"],
    "proxy": {"https_proxy": "http://proxy.lan:3128"},
}


def text(name: str) -> str:
    """Return a unit as it lies on a Spark."""
    return render(UNITS[name], **SETTINGS)


def directives(name: str, key: str) -> list[str]:
    """Return all values that a unit gives to a directive."""
    lines = re.findall(rf"^{key}=(.*)$", text(name), re.MULTILINE)
    return [value.lstrip("-") for line in lines for value in line.split()]


def rating(name: str, folder: Path) -> float:
    """Return how exposed systemd finds a unit."""
    (folder / name).write_text(text(name))
    words = ["systemd-analyze", "security", "--offline=yes", f"./{name}"]
    analysis = ended(words, cwd=folder)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", analysis.stdout)
    assert found, analysis.stderr
    return float(found[1])


def version() -> int:
    """Return systemd's version; 0 where there is none."""
    if not shutil.which("systemd-analyze"):
        return 0
    told = ended(["systemd-analyze", "--version"])
    found = re.search(r"systemd (\d+)", told.stdout)
    return int(found[1]) if found else 0


needs_systemd = pytest.mark.skipif(
    version() < 250, reason="needs systemd-analyze of systemd 250, which rates files"
)


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_not_exposed(name: str, tmp_path: Path) -> None:
    assert rating(name, tmp_path) <= BOUND


@pytest.mark.skipif(version() != VERSION, reason=f"the table was made by systemd {VERSION}")
def test_the_table_of_the_docs(tmp_path: Path) -> None:
    page = (FILES.parent / "docs/architecture.md").read_text()
    told = dict(re.findall(r"^\| `([a-z@-]+)` \|.*\| ([0-9.]+) \|$", page, re.MULTILINE))
    found = {name.removesuffix(".service"): f"{rating(name, tmp_path):.1f}" for name in UNITS}
    assert told == found


# What our units are ordered after and want, and a target that a boot ends with.
OTHERS = {
    **dict.fromkeys(("basic.target", "sysinit.target", "shutdown.target"), "[Unit]\n"),
    **dict.fromkeys(("sockets.target", "network-online.target"), "[Unit]\n"),
    "docker.service": "[Service]\nExecStart=/bin/true\n",
    "multi-user.target": "[Unit]\nWants=vllm@x.service\n",
}


@needs_systemd
def test_systemd_understands_every_line_and_finds_no_cycle(tmp_path: Path) -> None:
    for name in UNITS:
        (tmp_path / name).write_text(text(name))
    for name, content in OTHERS.items():
        (tmp_path / name).write_text(content)
    for socket in ("fabric-share.socket", "gateway.socket"):
        (tmp_path / socket).write_text("[Socket]\nListenStream=29502\nAccept=no\n")
    for socket in ("fabric-metrics.socket", "fabric-image.socket"):
        (tmp_path / socket).write_text("[Socket]\nListenStream=29503\nAccept=yes\n")
    units = [*(name.replace("@.", "@x.") for name in UNITS), "multi-user.target"]
    own = {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"}
    verify = ended(["systemd-analyze", "verify", "--man=no", *units], cwd=tmp_path, env=own)
    said = verify.stderr.splitlines()
    # Of programs that this machine lacks.
    assert [line for line in said if "is not executable" not in line] == []
    assert said or verify.returncode == 0


@pytest.mark.parametrize("name", sorted(set(UNITS) - DOCKER))
def test_who_needs_no_docker_does_not_reach_it(name: str) -> None:
    hidden = directives(name, "InaccessiblePaths")
    assert directives(name, "DynamicUser") == ["yes"] or {
        "/run/docker.sock",
        "/run/containerd",
    } <= set(hidden)


@pytest.mark.parametrize("folder", OWN)
@pytest.mark.parametrize("name", UNITS)
def test_secrets_and_the_doors_files_are_hidden(name: str, folder: str) -> None:
    if name in OWN[folder]:
        return
    hidden = directives(name, "InaccessiblePaths")
    # Folders that only root enters.
    assert directives(name, "DynamicUser") == ["yes"] or folder in hidden


@pytest.mark.parametrize("name", ["weights@.service", "gateway.service"])
def test_what_talks_to_the_internet_is_nobody(name: str) -> None:
    assert directives(name, "DynamicUser") == ["yes"]
    assert directives(name, "CapabilityBoundingSet") == []
    credentials = directives(name, "LoadCredential")
    assert len(credentials) == 1
    # In no argument and no environment, which /proc shows.
    assert not any("/opt/qwen36/secrets" in line for line in directives(name, "Environment"))


def test_notices_have_the_webhooks_address_by_no_argument_and_write_their_record_alone() -> None:
    name = "notify@.service"
    assert directives(name, "LoadCredential") == ["webhook:/opt/qwen36/secrets/webhook"]
    assert directives(name, "ReadWritePaths") == ["/opt/qwen36/state/notify"]
    assert directives(name, "CapabilityBoundingSet") == []
    (start,) = re.findall("^ExecStart=(.*)$", text(name), re.MULTILINE)
    assert "secrets" not in start
    assert not any("secrets" in line for line in directives(name, "Environment"))


def test_the_gateway_exchanges_packets_with_the_doors_alone() -> None:
    assert directives("gateway.service", "IPAddressDeny") == ["any"]
    assert directives("gateway.service", "IPAddressAllow") == SETTINGS["doors"]
