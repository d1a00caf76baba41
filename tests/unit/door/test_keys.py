"""The file of API keys beside an inventory."""

import multiprocessing
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.door import deploy
from sparkwright.door.key import Key
from sparkwright.door.keys import (
    api_keys,
    fleet_keys,
    gateway_key,
    has_keys,
    keys_path,
    lost,
    make_keys,
    named_key,
)
from tests.commands import sparkwright
from tests.makers.door import FLEET, KEY, declared, keys_text
from tests.makers.refused import refusal

GATEWAY = "gateway: {spark: spark-a}\n"


def write(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return declared(path.with_suffix(".yaml"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `sparkwright keys`: it says this to a person, and prints what is returned."""

    def run(fleet: Path, line: str, told: str = "", status: int = 0) -> str:
        assert sparkwright("keys", *shlex.split(line), inventory=fleet) == status
        shown = capsys.readouterr()
        assert told in shown.err + shown.out
        return shown.out.strip()

    return run


def test_the_first_key_is_made_once_and_stays(tmp_path):
    fleet = load_fleet(declared(tmp_path / "sparks.yaml"))
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
    assert path.read_text().endswith(f"keys:\n- name: owner\n  secret: {key}\n")


def test_reading_makes_no_file(tmp_path: Path, run: Callable[..., str]) -> None:
    path = declared(tmp_path / "sparks.yaml")
    said = refusal(api_keys, path)
    assert f"{tmp_path}/sparks.keys: found no such file; expected the API keys" in said
    assert "sparkwright keys new" in said
    for line in ("list", "show", "add ann", "remove owner", "rotate owner"):
        run(path, line, status=1)
    with pytest.raises(PlanError, match="found no such file"):
        named_key(load_fleet(path), "prometheus")
    assert list(tmp_path.iterdir()) == [path]


def test_several_runs_at_a_time_make_the_same_key(tmp_path: Path) -> None:
    path, fleet = tmp_path / "sparks.keys", load_fleet(declared(tmp_path / "sparks.yaml"))
    # A fork of a process with threads, which tests before may have left, can stand still for ever.
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        made = pool.map(make_keys, [fleet] * 12, chunksize=1)
    assert made.count("") == 11
    assert sorted(tmp_path.iterdir()) == [path, fleet.source]


@pytest.mark.parametrize("issued", ["keys", "certificate"])
@pytest.mark.parametrize(
    ("having", "read", "why"),
    [
        ("ba", "ab", "while the door of spark-a and of spark-b has "),
        ("b", "b", "while the door of spark-b has "),
        ("", "b", "and this run leaves out spark-a, whose door may have "),
    ],
)
def test_nothing_new_is_made_where_a_door_has_some(
    tmp_path: Path, issued: str, having: str, read: str, why: str
) -> None:
    fleet = load_fleet(declared(tmp_path / "sparks.yaml"))
    doors = {f"spark-{each}": each in having for each in read}
    said = lost(fleet, tmp_path / "sparks.lost", issued, doors)
    assert said
    what, new = {
        "keys": ("keys", "sparkwright keys new"),
        "certificate": ("a certificate of one", f"mkdir -p {tmp_path}/sparks.lost"),
    }[issued]
    assert f"{why}{what}; expected what " in said
    assert said.endswith(new)
    everywhere = dict.fromkeys(fleet.sparks, False)
    assert lost(fleet, tmp_path / "sparks.lost", issued, everywhere) is None
    if issued == "keys":
        # A door that is open to all needs no keys and need not be read.
        assert lost(fleet, tmp_path, "keys", {"spark-a": False}) is None


def test_what_editors_leave_in_a_file_is_no_part_of_a_key(tmp_path: Path) -> None:
    """Line ends and a byte order mark of Windows, trailing spaces, comments, no last line end."""
    text = f"# ours\n{keys_text(f'a {KEY}1', f'b {KEY}2')}".replace("\n", " \r\n").rstrip()
    path = write(tmp_path / "a.keys", f"\ufeff{text}")
    assert api_keys(path) == (f"{KEY}1", f"{KEY}2")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder.keys").mkdir(mode=0o700)
    (tmp_path / "dangling.keys").symlink_to("nowhere")
    for name, why in (("folder", "found a folder"), ("dangling", "found a link to nothing")):
        assert f"{name}.keys: {why}; expected" in refusal(
            api_keys, declared(tmp_path / f"{name}.yaml")
        )
    fleet = load_fleet(declared(tmp_path / "dangling.yaml"))
    assert has_keys(fleet)
    assert make_keys(fleet) == ""
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match=r"a\.keys: cannot be written \(.*file is no folder\)"):
        make_keys(replace(fleet, source=tmp_path / "file" / "a.yaml"))
    said = refusal(api_keys, write(tmp_path / "a.keys", keys_text(MORE), 0o640))
    assert "a.keys: found mode 640, with which others can read it; expected 600" in said


MORE = f"owner {KEY}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a.keys: found no keys, or encrypted ones; expected `keys:` and a list of keys"),
        (f"owner {KEY}\n", "a.keys: found no keys, or encrypted ones; expected"),
        ("-----BEGIN AGE ENCRYPTED FILE-----\n", "found no keys, or encrypted ones; expected"),
        ('{"data": "ENC[AES256_GCM,data", "sops": {}}', "keys_command: [sops, --decrypt, FILE]"),
        (b"\x85\x01\x0c\x03gpg", "a.keys: cannot be read as UTF-8 text"),
        (b"keys: []\0", "a.keys:1: found"),
        (f"keys: []\n<<<<<<< HEAD\n{KEY}\n", "a.keys:2: found a conflict mark of git"),
        ("keys: []\n", "a.keys: found no key that opens everything, today"),
        (f"keys: []\n{KEY}: x\n", "***: found an unknown key; "),
        (f"keys: [{KEY}]\n", "a.keys:1: keys[0]: found another value; expected a list of keys"),
        (f"keys:\n- &{KEY} a\n", "found the anchor &***"),
        (keys_text(MORE, "a sk-1234567890123456"), "a.keys:3: keys[1].secret: found another value"),
        (keys_text(f"{KEY}+ {KEY}"), "keys[0].name: found another value; expected a name of up to"),
        (keys_text(f"{'a' * 33} {KEY}"), "keys[0].name: found another value; expected a name"),
        *(
            (keys_text(f"a {secret}"), "secret: found another value; expected at least 20 random")
            for secret in (f"sk-{'a' * 20}", "abcdefghij" * 3, f"{KEY}é", "12345678901234567890")
        ),
        *(
            (keys_text(f"a {KEY} until: {day}"), "until: found another value; expected its last")
            for day in ("31.12.2027", "2027/12/31", "2027-1-5", "2027-02-30", "20271231", "2027")
        ),
        (keys_text(f"a {KEY} place: [chat]"), "keys[0].place: found an unknown key; did you mean"),
        (keys_text(MORE, f"b {KEY}"), "a.keys:1: keys: found one key for owner and b; expected"),
        (keys_text(MORE, f"a {KEY}1 places: [x]"), "places: found 'x' for a; expected one of chat"),
        (keys_text(f"a {KEY} places: [{KEY}]"), "keys[0].places: found 'sk-0123"),
        (keys_text(f"gateway {KEY} places: [chat]"), "found some for gateway; expected none"),
        (keys_text(f"a {KEY} places: [chat]"), "found no key that opens everything"),
        (keys_text(f"a {KEY} until: 2020-01-01"), "found no key that opens everything, today"),
    ],
)
def test_bad_files_are_refused_without_showing_a_key(tmp_path, text, told):
    said = refusal(api_keys, write(tmp_path / "a.keys", text))
    assert told in said
    assert "sk-1" not in said
    assert KEY not in said


def test_a_key_has_a_name_places_and_a_last_day(tmp_path: Path) -> None:
    more = (
        f"ann {KEY}1 places: [chat, gateway], until: 2099-12-31",
        f"bob {KEY}2 until: 2099-12-31",
    )
    path = write(tmp_path / "a.keys", keys_text(MORE, *more))
    owner, guest, bob = fleet_keys(load_fleet(path))
    assert [owner.opens(place) for place in ("chat", "code", "gateway")] == [True] * 3
    assert [guest.opens(place) for place in ("chat", "code", "gateway")] == [True, False, True]
    assert (guest.places, bob.places) == (["chat", "gateway"], [])
    assert bob.until == date(2099, 12, 31)
    assert bob.ends == 4102444800  # the midnight after its last day, in UTC
    assert api_keys(path) == (KEY, f"{KEY}2")
    assert KEY not in repr(owner)
    both = Key(name="ann", secret=KEY, places=["chat", "metrics"])
    assert both.line("chat") == f"{both.digest} ann:9999999999"
    assert both.line("code").endswith(":metrics")
    path.write_text(FLEET.replace("chat", "code"))
    assert "keys[1].places: found 'chat' for ann; expected one of code, gate" in refusal(
        api_keys, path
    )


def test_the_gateways_own_key_opens_replicas_alone_and_is_no_clients(
    tmp_path: Path, run: Callable[..., str]
) -> None:
    fleet = write(tmp_path / "a.keys", keys_text(f"gateway {KEY}1 until: 2099-12-31", MORE))
    # Without a gateway no door knows it; a change of the file keeps it.
    assert [key.name for key in fleet_keys(load_fleet(fleet))] == ["owner"]
    run(fleet, "add ann")
    run(fleet, "remove ann")
    declared(fleet, GATEWAY)
    own, owner = fleet_keys(load_fleet(fleet))
    assert [own.opens(place) for place in ("chat", "gateway")] == [True, False]
    assert ":metrics" not in own.line("chat")
    assert api_keys(fleet) == (KEY,)
    assert (gateway_key([owner, own]), gateway_key([owner])) == (own, None)
    for line in ("show gateway", "add gateway"):
        run(fleet, line, "found gateway, whose key a run makes", status=1)
    assert "gateway  replicas, for the gateway itself" in run(fleet, "list")
    run(fleet, "rotate gateway --days 0")
    new, _ = fleet_keys(load_fleet(fleet))
    assert (new.name, new.secret == own.secret) == ("gateway", False)


def test_a_run_with_a_gateway_makes_its_key_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.keys", keys_text(MORE))
    fleet = load_fleet(declared(path, GATEWAY))
    monkeypatch.setattr(deploy, "_planned", {})
    monkeypatch.setattr(deploy, "is_dry_run", lambda: True)
    assert [key.name for key in deploy.run_keys(fleet)] == ["owner", "gateway"]
    assert deploy.run_keys(fleet) == deploy.run_keys(fleet)
    assert keys_path(path).read_text() == keys_text(MORE)
    monkeypatch.setattr(deploy, "_planned", {})
    monkeypatch.setattr(deploy, "is_dry_run", lambda: False)
    made = deploy.run_keys(fleet)
    assert [(key.name, key.places) for key in made] == [("owner", []), ("gateway", [])]
    assert deploy.run_keys(fleet) == made
    assert f"name: gateway\n  secret: {made[1].secret}\n" in keys_path(path).read_text()
    # In a store of its owner's, nobody else can add one.
    words = f"keys_command: [echo, '{{keys: [{{name: owner, secret: {KEY}}}]}}']\n{GATEWAY}"
    keys_path(path).unlink()
    with pytest.raises(
        PlanError, match="found keys that are in a store of yours; expected a key of gateway there"
    ):
        deploy.run_keys(load_fleet(declared(path, words)))


def test_one_command_makes_replaces_and_removes_a_key(
    tmp_path: Path, run: Callable[..., str]
) -> None:
    fleet = declared(tmp_path / "sparks.yaml")
    assert run(fleet, "new").startswith(f"wrote {keys_path(fleet)} (0600)")
    owner = run(fleet, "show")
    made = "ann has a new key for chat until 2099-12-31. In force once deployed"
    ann = run(fleet, "add ann --for chat --until 2099-12-31", made)
    guest = run(fleet, "add guest")
    assert run(fleet, "show ann") == ann
    listed = run(fleet, "list")
    assert re.search(r"^ann +chat +2099-12-31$", listed, re.M)
    assert not any(key in listed for key in (owner, ann, guest))
    told = "owner has a new key; the old ones open until "
    new = run(fleet, "rotate owner --days 3", told)
    assert api_keys(fleet) == (new, owner, guest)
    days = [key.until for key in fleet_keys(load_fleet(fleet)) if key.name == "owner"]
    assert days[0] is None
    assert days[1] is not None
    assert 2 <= (days[1] - datetime.now(UTC).date()).days <= 3
    run(fleet, "remove ann", "The keys of ann are removed. In force once deployed")
    text = keys_path(fleet).read_text()
    assert ann not in text
    assert keys_path(fleet).stat().st_mode & 0o777 == 0o600
    # What cannot be leaves the file as it was.
    for line, told in (
        ("add 'a b'", 'name: found "a b"; expected a name of up to 32'),
        ("add bob --for nowhere", "found 'nowhere' for bob; expected one of"),
        ("rotate ann", "found no key of ann; expected one of owner, guest"),
        ("remove ann", "found no key of ann"),
        ("new", "found the file; expected none"),
    ):
        run(fleet, line, told, status=1)
    assert keys_path(fleet).read_text() == text


def test_a_leaked_key_is_replaced_though_it_is_the_only_one(
    tmp_path: Path, run: Callable[..., str]
) -> None:
    more = (f"ann {KEY}1 places: [chat]", f"old {KEY}2 until: 2020-01-01")
    path = write(tmp_path / "a.keys", keys_text(MORE, *more))
    text = keys_path(path).read_text()
    only = "a.keys: found no other key than that of owner that opens everything; expected"
    run(path, "remove owner", only, status=1)
    run(path, "remove owner", "keys rotate owner --days 0", status=1)
    assert keys_path(path).read_text() == text
    told = "owner has a new key; the old ones are removed. In force once deployed: "
    new = run(path, "rotate owner --days 0", told)
    assert api_keys(path) == (new,)
    assert KEY not in [key.secret for key in fleet_keys(load_fleet(path))]
    # Any other key goes, one that opens nothing as well.
    for name in ("ann", "old"):
        run(path, f"remove {name}")
    assert [key.name for key in fleet_keys(load_fleet(path))] == ["owner"]


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        (
            "add x --until yesterday",
            1,
            'found "yesterday"; expected its last day, such as 20',
        ),
        ("add x --until 2020-01-01", 1, "found 2020-01-01, which is over; expected"),
        ("rotate owner --days -1", 2, "--days"),
        ("rotate owner --days 99999999999", 2, "--days"),
    ],
)
def test_what_can_never_open_is_not_made(
    tmp_path: Path, run: Callable[..., str], line: str, status: int, told: str
) -> None:
    path = write(tmp_path / "a.keys", keys_text(MORE))
    run(path, line, told, status)
    assert keys_path(path).read_text() == keys_text(MORE)
