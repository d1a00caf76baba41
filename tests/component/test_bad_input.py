"""What an owner may write wrong in files: each problem names file, line, key and remedy."""

import os
import re
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.door import keys_file
from sparkwright.inventory.groups import load
from sparkwright.inventory.logins import check_logins
from sparkwright.inventory.selection import choose_replicas, selected
from sparkwright.recipe.loader import load_recipe
from sparkwright.release.bundle import read_bundle
from sparkwright.release.lock import read_lock
from sparkwright.release.registry_login import login_of
from sparkwright.run.options import slips

A, CHAT = "sparks:\n  a: {", "}\nreplicas:\n  chat: {recipe: qwen3.6-35b-nvidia, sparks: [a]"
MERGE = "<<<<<<< HEAD\nsparks: {a: {}}\n=======\nsparks: {b: {}}\n>>>>>>> theirs\n"

# The content of sparks.yaml, and what is said of it after its name.
INVENTORIES = {
    "a tab": ("sparks:\n\ta: {}\n", ":2: found a tab; expected spaces"),
    "a key twice": ("sparks:\n  a: {}\n  a: {}\n", ":3: a: found twice"),
    "an open bracket": ("sparks:\n  a: {ssh_user: x\nb: 1\n", ":2: found a { without its }"),
    "an open quote": ('sparks:\n  a: {ssh_user: "x}\n', ":2: found a quote that is not closed"),
    "indentation": ("sparks:\n  a: {}\n b: {}\n", ":3: found a line that begins farther left"),
    "a colon": ("sparks:\n  a: b: c\n", ":2: found a ': ' where no key can be"),
    "no colon": ("sparks:\n  a: {}\nreplicas\n", ":3: found a line without a colon"),
    "a sign": ("sparks: @x\n", ":1: found a value that begins with @; expected the value in quote"),
    "a tag": ("sparks: !x y\n", ":1: found the tag !x"),
    "an anchor": ("x: &d {}\n", ":1: found the anchor &d"),
    "two documents": ("sparks: {a: {}}\n---\nsparks: {}\n", ":2: found a second document"),
    "a merge": (MERGE, ":1: found a conflict mark of git; expected one version"),
    "a control character": ("sparks: {}\n\0\n", ":2: found the control character #x00"),
    "text": ("hello\n", ": found text without a key; expected a mapping"),
    "nothing": ("", ": sparks: found nothing; expected at least one Spark, such as"),
    "true": ("sparks:\n  true: {}\n", ":2: found the key true, which YAML reads as true; expected"),
    "007": ("sparks:\n  007: {}\n", ':2: found the key 007, which YAML reads as the number 7'),
    "a number": ("sparks:\n  7: {}\n", ":2: sparks.7: found 7; expected a name of a-z"),
    "sexagesimal": (f"{A}ssh_port: 20:22}}\n", ':2: sparks.a.ssh_port: found "20:22"; expected a'),
    "underscores": (f"{A}ssh_port: 2_2}}\n", ':2: sparks.a.ssh_port: found "2_2"; expected a TCP'),
    "quotes": (f"{A}ssh_port: '22'}}\n", "from 1 to 65535 (as a number: without quotes)"),
    "an exponent": (f"{A}ssh_port: 1e3}}\n", ":2: sparks.a.ssh_port: found 1000.0; expected a TCP"),
    "an overflow": (f"{A}ssh_port: 1e999}}\n", ":2: found 1e999; expected a smaller number"),
    "off": (f"{A}{CHAT}, api_key: off}}\n", ':4: replicas.chat.api_key: found "off"; expected'),
    "yes": (f"{A}local: yes}}\n", ':2: sparks.a.local: found "yes"; expected true for the machine'),
    "true for a user": (f"{A}ssh_user: true}}\n", ":2: sparks.a.ssh_user: found true; expected"),
    "a user's number": (f"{A}ssh_user: 1000}}\n", "found 1000; expected the name of a user who ma"),
    "a user": (f"{A}ssh_hostname: nvidia@10.0.0.1}}\n", "the address alone; the user is ssh_user:"),
    "a port": (f"{A}ssh_hostname: '10.0.0.1:2'}}\n", "the address alone; the port is ssh_port: 2"),
    "a scheme": (f"{A}ssh_hostname: 'ssh://x'}}\n", "expected the address alone, without a scheme"),
    "brackets": (f"{A}ssh_hostname: '[::1]'}}\n", "expected the address without brackets"),
    "a blank": (f"{A}ssh_hostname: ' '}}\n", 'found " "; expected an address or host name'),
    "an octet": (f"{A}ssh_hostname: 10.0.0.256}}\n", "expected an address of four numbers"),
    "a prefix": (f"{A}ssh_hostname: 10.0.0.1/24}}\n", "expected one address, without /"),
    "an option": (f"{A}ssh_hostname: -oProxyCommand=x}}\n", "expected an address or host name"),
    "an address for a user": (f"{A}ssh_user: me@x}}\n", "expected the name of a user alone"),
    "a slip": (f"{A}ssh_host: x}}\n", ":2: sparks.a.ssh_host: found an unknown key; did you mean "),
    "a password": (f"{A}ssh_password: x}}\n", "found a password; expected a login by key: ssh-cop"),
    "a class": (f"{A}hardware: GB10}}\n", "hardware: found GB10; did you mean 'gb10'? Expected on"),
    "a file's name": (
        f"{A}{CHAT}}}\n".replace("nvidia,", "nvidia.yaml,"),
        "which is no file; expected the name alone: qwen3.6-35b-nvidia",
    ),
    "no recipe's name": (f"{A}{CHAT}}}\n".replace("qwen3.6-35b-nvidia", "''"), 'recipe: found "";'),
    "a folder": (f"{A}{CHAT}}}\n".replace("qwen3.6-35b-nvidia", "./"), "a folder; expected the na"),
    "a Spark that is not there": (f"{A}{CHAT}, port: 1}}\n".replace("[a]", "[b]"), "sparks: found"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), INVENTORIES.values(), ids=INVENTORIES)
def test_an_inventory(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "sparks.yaml"
    path.write_text(text)
    with pytest.raises(PlanError) as caught:
        load(path)
    assert said in str(caught.value)
    assert all(problem.startswith(f"{path}:") for problem in caught.value.problems)


def test_a_list_of_names_is_short_and_without_the_labs(tmp_path: Path) -> None:
    path = tmp_path / "sparks.yaml"
    path.write_text(f"{A}{CHAT}}}\n".replace("nvidia,", "nvida,"))
    with pytest.raises(PlanError) as caught:
        load(path)
    (problem,) = caught.value.problems
    said = problem.removeprefix(f"{path}:4: replicas.chat.recipe: found qwen3.6-35b-nvida; ")
    assert said.startswith("did you mean 'qwen3.6-35b-nvidia'? Expected one of ")
    assert "lab-" not in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfes\0", ": cannot be read as UTF-8 text ("),
        (None, ": found a folder; expected a YAML file"),
    ],
)
def test_no_text(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "sparks.yaml"
    path.write_bytes(content) if content is not None else path.mkdir()
    with pytest.raises(PlanError, match=re.escape(f"{path}{said}")):
        load(path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _bundle(path: Path) -> None:
    try:
        digest = sha256(content_of(path, 1 << 27)).hexdigest()
    except OSError:
        digest = "0" * 64
    read_bundle(path.parent, digest, path)


def _login(path: Path) -> None:
    login_of.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_CONFIG", str(path.parent))
        login_of("registry.example.org")


READERS = {
    "sparks.yaml": load,
    "mine.yaml": lambda path: load_recipe(str(path)),
    "sparks.lock.yaml": read_lock,
    "sparks.keys": lambda path: keys_file.read_file(path, ()),
    "config.json": _login,
    "bundle.json": _bundle,
}


@pytest.mark.parametrize("make", [_pipe, _device, _socket, Path.mkdir])
@pytest.mark.parametrize(("name", "read"), READERS.items(), ids=READERS)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path,
    name: str,
    read: Callable[[Path], object],
    make: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path(name))
    with pytest.raises(PlanError) as caught:
        read(tmp_path / name)
    said = str(caught.value)
    assert str(tmp_path / name) in said
    assert ("it is no regular file" in said) or make is Path.mkdir


@pytest.mark.parametrize("make", [_pipe, _device])
def test_a_key_that_is_no_regular_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "key")
    with pytest.raises(PlanError) as caught:
        check_logins(tmp_path / "sparks.yaml", [], str(tmp_path / "key"))
    (problem,) = caught.value.problems
    assert problem.endswith("(it is no regular file); expected a private key")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('gpu-memory-utilization: "0,9"', ':3: args.gpu-memory-utilization: found "0,9"; expected'),
        ("max-num-batched-tokens: 1e3", ":3: args.max-num-batched-tokens: found 1000.0; expected"),
        ("async-scheduling: yes", ':3: args.async-scheduling: found "yes"; expected true or false'),
        ("port: 80", ":3: args.port: found it set"),
        (
            f"max-model-len: {10**26}",
            f":3: args.max-model-len: found {10**26}; expected a number of",
        ),
        (f"seed: {10**26}", f":3: args.seed: found {10**26}; expected a number of at most 64 bits"),
        ("seed: 1.0e+300", ":3: args.seed: found 1e+300; expected a number of at most 64 bits"),
        (f"max-model-len: '{10**26}'", ':3: args.max-model-len: found "1000'),
    ],
)
def test_a_recipe(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    about = "description: x, source: x, proven: x"
    path.write_text(f"extends: lab-tiny\nargs:\n  {line}\n{about.replace(', ', chr(10))}\n")
    with pytest.raises(PlanError) as caught:
        load_recipe(str(path))
    assert f"{path}{said}" in str(caught.value)


GROUPS = {
    name: [(spark, {}) for spark in sparks]
    for name, sparks in {"sparks": ("a", "b"), "one": ("a",), "pair": ("a", "b")}.items()
}


@pytest.mark.parametrize(
    ("limit", "exclude", "said"),
    [
        (["on"], [], "--limit: found on, which matches nothing; did you mean 'one'? Expected one "),
        (["a,b"], [], "--limit: found a,b, which matches nothing"),
        ([""], [], '--limit: found "", which matches nothing'),
        (["inventory"], [], "--limit: found inventory, which matches nothing"),
        ([], ["c"], "--exclude: found c, which matches nothing"),
        ([], ["pair"], "--exclude: found pair; expected a host to be left"),
        (["one"], ["a"], "--exclude: found a; expected a host to be left"),
    ],
)  # fmt: skip
def test_limits(limit: list[str], exclude: list[str], said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        selected(GROUPS, limit, exclude)


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [
        (["chat"], ["chat"]),
        (["embed"], ["embed"]),
        (["embed", "chat"], ["chat", "embed"]),
        (["embed", "other"], ["embed"]),
        ([], None),
        (["sparks"], None),
        (["embed", "a"], None),
        (["embed", "?"], None),
        (["other"], None),
    ],
)
def test_a_replica_of_two_on_a_spark_is_meant_alone(
    limit: list[str], chosen: list[str] | None
) -> None:
    both: dict[str, object] = {"replicas": ["chat", "embed"]}
    hosts = [("a", both), ("b", {})]
    groups = {"sparks": hosts, "chat": hosts[:1], "embed": hosts[:1], "other": hosts[1:]}
    choose_replicas(groups, limit)
    assert both.get("chosen") == chosen
    assert hosts[1] == ("b", {})


def test_what_limits_leave() -> None:
    assert [name for name, _ in selected(GROUPS, ["?"], ["one"])] == ["b"]
    assert [name for name, _ in selected(GROUPS, [], [])] == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workloads": "shrt"}, "did you mean 'short'? Expected one of"),
        ({"weights": "verfy"}, "found 'verfy'; expected verify, or remove with"),
    ],
)
def test_options_of_a_run(given: dict[str, object], said: str) -> None:
    (problem,) = slips(given, removal=False)
    assert said in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "found no file KEY; expected a private key: ssh-keygen -t ed25519"),
        ("ssh-ed25519 AAAA me\n", "found KEY, a public key; expected the private one: "),
        ("hello\n", "found KEY, which is no key; expected a private key of OpenSSH"),
    ],
)  # fmt: skip
def test_a_key(tmp_path: Path, content: str | None, said: str) -> None:
    key, path = tmp_path / "key", tmp_path / "sparks.yaml"
    path.write_text(f"sparks:\n  a: {{ssh_key: {key}}}\n")
    if content:
        key.write_text(content)
    with pytest.raises(PlanError) as caught:
        check_logins(path, [("a", {"spark": "a", "ssh_key": str(key)})])
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:2: sparks.a.ssh_key: {said.replace('KEY', str(key))}")
