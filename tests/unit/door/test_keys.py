"""The file of API keys beside an inventory."""

import multiprocessing
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.door import deploy, keys_command
from sparkwright.door.key import Key
from sparkwright.door.keys import (
    api_keys,
    fleet_keys,
    gateway_key,
    has_keys,
    keys_path,
    lost_keys,
    make_keys,
    named_key,
)
from sparkwright.door.keys_file import make_file
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.recipe.loader import recipe_names
from tests.commands import sparkwright

KEY = "sk-0123456789abcdefghij"
FLEET = """\
sparks: {spark-a: {ssh_hostname: 192.0.2.1}, spark-b: {ssh_hostname: 192.0.2.2}}
replicas:
  chat: {recipe: qwen3.6-35b-nvidia, sparks: [spark-a]}
  open: {recipe: qwen3.6-35b-nvidia, sparks: [spark-b], api_key: none}
"""


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no output of an earlier test's command."""
    monkeypatch.setattr(keys_command, "_said", {})
    return


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return declared(path.with_suffix(".yaml"))


def declared(path: Path, more: str = "") -> Path:
    path.write_text(FLEET + more)
    return path


def loaded(path: Path) -> Fleet:
    return load_fleet(path, recipe_names())


def refusal(path: Path) -> str:
    with pytest.raises(PlanError) as raised:
        api_keys(path)
    return str(raised.value)


def test_the_first_key_is_made_once_and_stays(tmp_path: Path) -> None:
    fleet = loaded(declared(tmp_path / "sparks.yaml"))
    assert not has_keys(fleet)
    path = tmp_path / "sparks.keys"
    assert make_keys(fleet) == f"wrote {path} (0600): the API keys; back it up"
    (key,) = api_keys(fleet.source)
    assert re.fullmatch(r"sk-[A-Za-z0-9_-]{43}", key)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sparks.keys", "sparks.yaml"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert has_keys(fleet)
    assert make_keys(fleet) == ""
    assert api_keys(fleet.source) == (key,)
    assert path.read_text().startswith(f"owner {key}\n#")


def test_reading_makes_no_file(tmp_path: Path) -> None:
    path = declared(tmp_path / "sparks.yaml")
    said = refusal(path)
    assert f"{tmp_path}/sparks.keys: found no such file; expected the API keys" in said
    assert "sparkwright keys new" in said
    for words in (["list"], ["show"], ["add", "ann"], ["remove", "owner"], ["rotate", "owner"]):
        assert sparkwright("keys", *words, inventory=path) == 1
    with pytest.raises(PlanError, match="found no such file"):
        named_key(loaded(path), "prometheus")
    assert list(tmp_path.iterdir()) == [path]


def test_several_runs_at_a_time_make_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "sparks.keys"
    # A fork of a process with threads, which tests before may have left, can stand still for ever.
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        made = pool.map(make_file, [path] * 32, chunksize=1)
    assert made.count(True) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("keyed", "read", "why"),
    [
        (
            ["spark-b", "spark-a"],
            ["spark-a", "spark-b"],
            "door of spark-a and of spark-b has",
        ),
        (["spark-b"], ["spark-b"], "while the door of spark-b has keys; expected the file"),
        ([], ["spark-b"], "and this run leaves out spark-a, whose door may have keys"),
    ],
)
def test_new_keys_are_refused_where_a_door_has_some(
    tmp_path: Path, keyed: list[str], read: list[str], why: str
) -> None:
    fleet = loaded(declared(tmp_path / "sparks.yaml"))
    said = lost_keys(fleet, keyed, read)
    assert said
    assert why in said
    assert "sparkwright keys new" in said


@pytest.mark.parametrize("read", [["spark-a"], ["spark-a", "spark-b"]])
def test_new_keys_are_made_where_no_door_has_any(tmp_path: Path, read: list[str]) -> None:
    """A door that is open to all needs none, and need not be read."""
    assert lost_keys(loaded(declared(tmp_path / "sparks.yaml")), [], read) is None


def test_several_keys_in_their_order_with_comments(tmp_path: Path) -> None:
    text = f"# ours\n{KEY}1\n\n  {KEY}2  \r\n# of a guest\n{KEY}1\n"
    assert api_keys(write(tmp_path / "a.keys", text)) == (f"{KEY}1", f"{KEY}2")


def test_what_editors_leave_in_a_file_is_no_part_of_a_key(tmp_path: Path) -> None:
    """Line ends and a byte order mark of Windows, trailing spaces, no last line end."""
    text = f"\ufeff{KEY}1\r\n# ours \r\n{KEY}2 \t\r\n{KEY}1 \r\n\r\n{KEY}3"
    path = write(tmp_path / "a.keys", text)
    assert api_keys(path) == (f"{KEY}1", f"{KEY}2", f"{KEY}3")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x85\x01\x0c\x03gpg", "found a file that is encrypted, or no text"),
        (b"a\0b", "found a file that is encrypted, or no text"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\n", "found a file that is encrypted"),
        (b'{"data": "ENC[AES256_GCM,data"}', "keys_command: [sops, --decrypt, "),
        (b"$ANSIBLE_VAULT;1.1;AES256\n", "found a file that is encrypted"),
        (b"a x\n<<<<<<< HEAD\n", "line 2: found git's marks of a merge conflict"),
    ],
)
def test_what_is_no_file_of_keys_is_told(tmp_path: Path, content: bytes, told: str) -> None:
    path = write(tmp_path / "a.keys", "")
    path.with_suffix(".keys").write_bytes(content)
    assert told in refusal(path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder.keys").mkdir(mode=0o700)
    (tmp_path / "dangling.keys").symlink_to("nowhere")
    for name, why in (
        ("folder", "found a folder; expected a file of this user's own"),
        ("dangling", "found a link to a file that is not there"),
    ):
        assert f"{name}.keys: {why}" in refusal(declared(tmp_path / f"{name}.yaml"))
    fleet = loaded(declared(tmp_path / "dangling.yaml"))
    assert has_keys(fleet)
    assert make_keys(fleet) == ""


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"a\.keys: cannot be written \(No such file or dir"):
        make_file(tmp_path / "nowhere" / "a.keys")


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("", 0o600, "a.keys: found no key"),
        ("# none\n", 0o600, "a.keys: found no key"),
        (f"# short\n{KEY}\nsk-1234567890123456\n", 0o600, "line 3: found a key of 19 characters"),
        (f"{KEY}+ {KEY}\n", 0o600, "line 1: found no valid name before the key"),
        (f"{'a' * 33} {KEY}\n", 0o600, "line 1: found no valid name before the key"),
        ("sk-" + "a" * 20, 0o600, "line 1: found a key of 4 different characters; expected at"),
        ("abcdefghij" * 3, 0o600, "line 1: found a key with a repeating pattern"),
        (f"a {KEY} chat 2027-01-01 more\n", 0o600, "line 1: found 3 words after the key of a"),
        *(
            (f"a {KEY} {day}\n", 0o600, f"line 1: found {day}; expected the last day as YYYY-")
            for day in ("31.12.2027", "2027/12/31", "2027-1-5", "1-5-27")
        ),
        (f"a {KEY} 2027-02-30\n", 0o600, "line 1: found 2027-02-30, which is no day"),
        (f"a {KEY}\nb {KEY}\n", 0o600, "a.keys: found one key for a and b"),
        (f"a {KEY} chat\n", 0o600, "a.keys: found no key that opens everything"),
        (f"a {KEY} 2020-01-01\n", 0o600, "a.keys: found no key that opens everything, today"),
        (f"{KEY}é\n", 0o600, "line 1: found other characters"),
        (f"{KEY}\n", 0o640, "found mode 640, with which others can read it; expected 600"),
    ],
)
def test_bad_files_are_refused_without_showing_a_key(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    said = refusal(write(tmp_path / "a.keys", text, mode))
    assert told in said
    assert "sk-1" not in said
    assert KEY not in said


def test_a_line_says_whose_a_key_is_what_it_opens_and_until_when(tmp_path: Path) -> None:
    text = f"owner {KEY}\nann {KEY}1 chat,gateway 2099-12-31\nbob {KEY}2 2099-12-31\n{KEY}3\n"
    path = write(tmp_path / "a.keys", text)
    owner, ann, bob, old = fleet_keys(loaded(path))
    assert [owner.opens(place) for place in ("chat", "code", "gateway")] == [True] * 3
    assert [ann.opens(place) for place in ("chat", "code", "gateway")] == [True, False, True]
    assert (ann.places, bob.places) == (("chat", "gateway"), ())
    assert bob.ends == 4102444800  # the midnight after its last day, in UTC
    # A line of before keys had names is known by a part of its sum.
    assert old.name == f"key-{old.digest[:6].lower()}"
    assert api_keys(path) == (KEY, f"{KEY}2", f"{KEY}3")
    path.write_text(FLEET.replace("chat", "code"))
    assert "line 2: found 'chat' for the key of ann; expected code, gate" in refusal(path)


def test_the_gateways_own_key_opens_replicas_alone_and_is_no_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"gateway {KEY}1 2099-12-31\nowner {KEY}\n"
    fleet = write(tmp_path / "a.keys", text)
    # Without a gateway no door knows it.
    assert [key.name for key in fleet_keys(loaded(fleet))] == ["owner"]
    declared(fleet, "gateway: {spark: spark-a}\n")
    own, owner = fleet_keys(loaded(fleet))
    assert [own.opens(place) for place in ("chat", "gateway")] == [True, False]
    assert ":metrics" not in own.line("chat")
    assert api_keys(fleet) == (KEY,)
    assert (gateway_key([owner, own]), gateway_key([owner])) == (own, None)
    for words in (("show", "gateway"), ("add", "gateway")):
        assert sparkwright("keys", *words, inventory=fleet) == 1
        assert "found gateway, whose key a run makes" in capsys.readouterr().err
    assert sparkwright("keys", "list", inventory=fleet) == 0
    assert "gateway  replicas, for the gateway itself" in capsys.readouterr().out
    assert sparkwright("keys", "rotate", "gateway", "--days", "0", inventory=fleet) == 0
    new, _ = fleet_keys(loaded(fleet))
    assert (new.name, new.secret == own.secret) == ("gateway", False)
    keys_path(fleet).write_text(f"gateway {KEY}1 chat\nowner {KEY}\n")
    assert "line 1: found places for the key of gateway" in refusal(fleet)


def test_a_run_with_a_gateway_makes_its_key_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.keys", f"owner {KEY}\n")
    fleet = loaded(declared(path, "gateway: {spark: spark-a}\n"))
    monkeypatch.setattr(deploy, "_planned", {})
    monkeypatch.setattr(deploy, "is_dry_run", lambda: True)
    assert [key.name for key in deploy.run_keys(fleet)] == ["owner", "gateway"]
    assert deploy.run_keys(fleet) == deploy.run_keys(fleet)
    assert keys_path(path).read_text() == f"owner {KEY}\n"
    monkeypatch.setattr(deploy, "_planned", {})
    monkeypatch.setattr(deploy, "is_dry_run", lambda: False)
    made = deploy.run_keys(fleet)
    assert [(key.name, key.places) for key in made] == [("owner", ()), ("gateway", ())]
    assert deploy.run_keys(fleet) == made
    assert f"gateway {made[1].secret}\n" in keys_path(path).read_text()
    # In a store of its owner's, nobody else can add one.
    words = f"keys_command: [echo, owner {KEY}]\ngateway: {{spark: spark-a}}\n"
    keys_path(path).unlink()
    with pytest.raises(PlanError, match="found no key of gateway, and keys that are in a store"):
        deploy.run_keys(loaded(declared(path, words)))


def test_a_key_for_metrics_opens_these_at_each_door() -> None:
    key = Key("prometheus", KEY, ("metrics",))
    assert key.opens("chat")
    assert key.line("chat") == f"{key.digest} prometheus:9999999999:metrics"
    both = Key("ann", KEY, ("chat", "metrics"))
    assert both.line("chat") == f"{both.digest} ann:9999999999"
    assert both.line("code").endswith(":metrics")


def test_one_command_makes_replaces_and_removes_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = declared(tmp_path / "sparks.yaml")

    def run(*words: str) -> str:
        assert sparkwright("keys", *words, inventory=fleet) == 0
        return capsys.readouterr().out.strip()

    assert run("new").startswith(f"wrote {keys_path(fleet)} (0600)")
    owner = run("show")
    ann = run("add", "ann", "--for", "chat", "--until", "2099-12-31")
    assert run("show", "ann") == ann
    with keys_path(fleet).open("a") as file:
        file.write(f"# of a guest\n{KEY}\n")
    listed = run("list")
    assert re.search(r"^ann +chat +2099-12-31$", listed, re.M)
    assert not any(key in listed for key in (owner, ann, KEY))
    new = run("rotate", "owner", "--days", "3")
    assert api_keys(fleet) == (new, owner, KEY)
    days = [key.until for key in fleet_keys(loaded(fleet)) if key.name == "owner"]
    assert days[0] is None
    assert days[1] is not None
    assert 2 <= (days[1] - datetime.now(UTC).date()).days <= 3
    run("remove", "ann")
    text = keys_path(fleet).read_text()
    assert (ann in text, "# of a guest" in text) == (False, True)
    assert keys_path(fleet).stat().st_mode & 0o777 == 0o600
    # What cannot be leaves the file as it was.
    for words, told in (
        (("add", "a b"), "found 'a b'; expected a name of up to 32"),
        (("add", "bob", "--for", "nowhere"), "found 'nowhere' for the key of bob"),
        (("rotate", "ann"), "found no key of ann; expected one of owner, key-"),
        (("remove", "ann"), "found no key of ann"),
        (("new",), "found the file; expected none"),
    ):
        assert sparkwright("keys", *words, inventory=fleet) == 1
        assert told in capsys.readouterr().err
    assert keys_path(fleet).read_text() == text


def test_a_leaked_key_is_replaced_though_it_is_the_only_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.keys", f"owner {KEY}\nann {KEY}1 chat\nold {KEY}2 2020-01-01\n")
    text = keys_path(path).read_text()
    assert sparkwright("keys", "remove", "owner", inventory=path) == 1
    said = capsys.readouterr().err
    assert "a.keys: found no other key than that of owner that opens everything; expected" in said
    assert "keys rotate owner --days 0" in said
    assert keys_path(path).read_text() == text
    assert sparkwright("keys", "rotate", "owner", "--days", "0", inventory=path) == 0
    shown = capsys.readouterr()
    assert api_keys(path) == (shown.out.strip(),)
    assert KEY not in [key.secret for key in fleet_keys(loaded(path))]
    assert "owner has a new key; the old ones are removed. In force once deployed: " in shown.err
    # Any other key goes, one that opens nothing as well.
    for name in ("ann", "old"):
        assert sparkwright("keys", "remove", name, inventory=path) == 0
    assert [key.name for key in fleet_keys(loaded(path))] == ["owner"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["add", "x", "--until", "yesterday"], 2, "expected a day such as 2027-03-31"),
        (["add", "x", "--until", "2027-02-30"], 2, "expected a day such as 2027-03-31"),
        (["add", "x", "--until", "20270331"], 2, "expected a day such as 2027-03-31"),
        (["add", "x", "--until", "2020-01-01"], 1, "found 2020-01-01, which is over; expected"),
        (["rotate", "owner", "--days", "-1"], 2, "--days"),
        (["rotate", "owner", "--days", "99999999999"], 2, "--days"),
        ([], 2, "rotate  Make a new key for a name"),
        (["ad"], 2, "Usage: sparkwright keys"),
    ],
)
def test_what_can_never_open_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    path = write(tmp_path / "a.keys", f"owner {KEY}\n")
    assert sparkwright("keys", *words, inventory=path) == status
    assert said in " ".join(capsys.readouterr())
    assert keys_path(path).read_text() == f"owner {KEY}\n"


def test_each_change_says_what_is_so_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.keys", f"owner {KEY}\n")
    for words, said in (
        (("add", "ann", "--for", "chat"), "ann has a new key for chat. In force once deployed"),
        (("rotate", "ann"), "ann has a new key; the old ones open until "),
        (("remove", "ann"), "The keys of ann are removed. In force once deployed"),
    ):
        assert sparkwright("keys", *words, inventory=path) == 0
        assert said in capsys.readouterr().err
