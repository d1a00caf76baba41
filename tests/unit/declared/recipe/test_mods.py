"""Mods: what of a folder counts, what is shown of its scripts, and who may allow it."""

import base64
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from host.artifacts.image.build import context
from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet, unsupported
from sparkwright.declared.recipe import mods
from sparkwright.declared.recipe.build import build_files, build_name, build_problems
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.mods import ModFolder, read_mods
from sparkwright.declared.recipe.trust import needs
from sparkwright.declared.recipe.values import ImageMods
from tests.makers.release import lock, recipe, release

BASE = "example.org/vllm:1"
DIGEST = f"sha256:{'5' * 64}"
PATCH = """\
--- a/vllm/model_executor/models/tiny.py
+++ b/vllm/model_executor/models/tiny.py
@@ -1 +1 @@
-x = 1
+x = 2
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with one mod and a recipe that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files/recipes").mkdir(parents=True)
    mod(tmp_path, "fix-tiny", "patch -p1 -d / < tiny.patch", **{"tiny.patch": PATCH.encode()})
    (tmp_path / "files/recipes/mine.yaml").write_text(
        "extends: lab-tiny\ndescription: x\nsource: x\nproven: x\n"
        f"image: {{base: '{BASE}', mods: [fix-tiny]}}\n"
    )
    return tmp_path


def mod(site: Path, name: str, script: str, **files: bytes) -> Path:
    folder = site / "files/mods" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.sh").write_text(f"#!/bin/bash\nset -e\n{script}\n")
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    return folder


def one(site: Path, script: str, **files: bytes) -> ModFolder:
    (read,) = read_mods([mod(site, "one", script, **files)])
    return read


def test_a_name_is_made_of_bytes_modes_order_and_base(site: Path) -> None:
    """And of nothing else: not of the place, nor of when a file was written."""
    mod(site, "other", "true", data=b"\x00\xff")

    def name(*names: str | Path, digest: str = DIGEST, vllm: str | None = None) -> str:
        return build_name(ImageMods(base=BASE, mods=[*names], vllm=vllm), digest)

    first = name("fix-tiny", "other")
    assert first.startswith("sparkwright/mods:")
    assert first == name(site / "files/mods/fix-tiny", "other")
    file = site / "files/mods/other/data"
    os.utime(file, (1, 1))
    (site / "files/mods/other/.data.swp").write_text("x")
    (site / "files/mods/other/__pycache__").mkdir()
    (site / "files/mods/other/__pycache__/x.pyc").write_text("x")
    assert first == name("fix-tiny", "other")
    others = {
        name("other", "fix-tiny"),
        name("fix-tiny"),
        name("fix-tiny", "other", digest=f"sha256:{'6' * 64}"),
        name("fix-tiny", "other", vllm="0.33.0"),
    }
    file.write_bytes(b"\x00\xfe")
    others.add(name("fix-tiny", "other"))
    file.chmod(0o755)
    others.add(name("fix-tiny", "other"))
    file.rename(file.with_name("data2"))
    others.add(name("fix-tiny", "other"))
    assert len({first, *others}) == 8


def test_all_files_reach_the_place_where_launchers_put_them(site: Path) -> None:
    mod(site, "other", "curl https://example.org/x", **{"a/tool": b"\x00\xff"})
    (site / "files/mods/other/a/tool").chmod(0o755)
    files = build_files(ImageMods(base=BASE, mods=["fix-tiny", "other"]))
    with tarfile.open(fileobj=io.BytesIO(context(files))) as tar:
        found = {each.name: (tar.extractfile(each), each.mode) for each in tar}
    tool, mode = found["mods/other/a/tool"]
    assert tool
    assert (tool.read(), mode) == (b"\x00\xff", 0o755)
    assert found["mods/other/run.sh"][1] == 0o755
    assert files["mods/fix-tiny/tiny.patch"] == PATCH
    # Orders hold binary files as text that JSON can hold.
    entry = files["mods/other/a/tool"]
    assert isinstance(entry, dict)
    assert base64.b64decode(entry["base64"]) == b"\x00\xff"
    lines = str(files["Dockerfile"]).splitlines()
    places = [line for line in lines if line.startswith("COPY")]
    assert places == [
        'COPY ["mods/fix-tiny/", "/workspace/mods/fix-tiny/"]',
        'COPY ["mods/other/", "/workspace/mods/other/"]',
    ]
    runs = {name: line for line in lines for name in ("fix-tiny", "other") if f'"{name}"]' in line}
    assert "--network=none" in runs["fix-tiny"]
    assert "--network=default" in runs["other"]
    assert '"verify"' in lines[-1]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "run.sh").unlink(), "found no one/run.sh; expected"),
        (lambda folder: (folder / "x").symlink_to("/etc/passwd"), "found a link"),
        (lambda folder: (folder / "x").symlink_to("run.sh"), "found a link"),
        (lambda folder: (folder / "d").symlink_to("/etc"), "found a link"),
        (lambda folder: os.mkfifo(folder / "x"), "another special file"),
        (lambda folder: (folder / "a b").touch(), 'found "a b"; expected paths of letters'),
        (lambda folder: (folder / "a\x1b[2J").touch(), "expected paths of letters"),
        (lambda folder: (folder / "-rf").touch(), "expected paths of letters"),
        (lambda folder: (folder / "/".join("abcdefghi")).mkdir(parents=True), "at most 8 deep"),
        (
            lambda folder: [(folder / f"f{n}").touch() for n in range(100)],
            "found more files than 100",
        ),
        (
            lambda folder: (folder / "x").write_bytes(b"x" * (mods.MOST_BYTES + 1)),
            "found more than 4,194,304 bytes",
        ),
        (
            lambda folder: [
                (folder / f"f{n}").write_bytes(b"x" * mods.MOST_BYTES) for n in range(5)
            ],
            "found 20,971,",
        ),
    ],
)
def test_what_is_no_mod_is_refused_by_its_file(site: Path, spoil: object, said: str) -> None:
    assert callable(spoil)
    folder = mod(site, "one", "true")
    mod(site, "two", "true")
    spoil(folder)
    (problem,) = build_problems(ImageMods(base=BASE, mods=["one", "two"]))
    assert problem.startswith("image.mods: ")
    assert said in problem


def test_names_of_mods_that_cannot_be_are_refused(site: Path) -> None:
    (site / "files/mods/two").symlink_to(site / "files/mods/fix-tiny")
    with pytest.raises(PlanError, match="found a symbolic link"):
        read_mods(["two"])
    with pytest.raises(PlanError, match="found fix-tiny more than once"):
        read_mods(["fix-tiny", site / "files/mods/fix-tiny"])
    with pytest.raises(PlanError, match="found 17 mods; expected 16 at most"):
        read_mods(["fix-tiny"] * 17)
    file = site / "files/recipes/mine.yaml"
    file.write_text(file.read_text().replace("fix-tiny", "fix-tyni"))
    with pytest.raises(PlanError, match=r"found no fix-tyni/run.sh; did you mean 'fix-tiny'"):
        load_recipe("mine")


@pytest.mark.parametrize("name", ["../x", "/etc", "a/b", ".", "", "a b"])
def test_a_recipe_names_folders_of_files_mods_alone(site: Path, name: str) -> None:
    file = site / "files/recipes/mine.yaml"
    file.write_text(file.read_text().replace("fix-tiny", repr(name)))
    with pytest.raises(PlanError, match=r"mine.yaml:5: image.mods\[0\]: .*a folder of files/mods"):
        load_recipe("mine")


@pytest.mark.parametrize(
    ("line", "online"),
    [
        ("pip install x", True),
        ("python3 -m pip install --no-index ./x-1.0.whl", False),
        ("pip install ./x-1.0.whl", True),
        ("apt-get install -y jq", True),
        (f"pip install git+https://example.org/x@{'a' * 40}", True),
        ("curl -L https://example.org/1.diff | patch -p1", True),
        ("if curl -L \\\n https://example.org/1.diff; then", True),
        ("export https_proxy=http://192.0.2.1:7890", True),
        ("patch -p1 -d / < x.diff", False),
        ("cp x.jinja $WORKSPACE_DIR/y.jinja", False),
        # Comments and printed words ask for none.
        ("# pip install y\necho 'use curl'\necho done", False),
    ],
)
def test_a_network_is_only_for_what_asks_one(site: Path, line: str, online: bool) -> None:
    read = one(site, line)
    assert read.is_online is online
    assert f"network: {'yes' if online else 'none'}" in "\n".join(read.description())


def test_a_script_that_run_sh_calls_counts_and_one_that_it_copies_does_not(site: Path) -> None:
    fetch = b"import urllib.request as r\nr.urlopen('https://example.org/x')\n"
    assert one(site, 'python3 "$(dirname "$0")/fix.py"', **{"fix.py": fetch}).is_online
    assert not one(site, "cp fix.py /opt/", **{"fix.py": fetch}).is_online


PROCESS = "an image keeps no process"
CACHE = "no cache of the Hub is there, and checkpoints stay as the lock has them"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nohup x >/dev/null 2>&1 &", PROCESS),
        ("x &", PROCESS),
        ('CACHE="${HF_HOME:-/root/.cache/huggingface}"', CACHE),
        ("sed -i s/a/b/ $HUB/models--owner--name/refs/main", CACHE),
        ('cp "$HUB"/snapshots/*/dflash/config.json /workspace/drafter/', CACHE),
        ("python3 patch.py", CACHE),
        *((line, None) for line in ("a && b", "a 2>&1", "x &\nwait", "echo $HF_HOME")),
    ],
)
def test_what_a_build_has_no_use_for_is_refused(site: Path, line: str, reason: str | None) -> None:
    """Processes, which no image keeps, and changes of a checkpoint in a cache; no others."""
    script = b"import os\n# HF_HOME\nroot = os.environ['HF_HUB_CACHE']\n"
    mod(site, "one", line, **{"patch.py": script})
    found = list(build_problems(ImageMods(base=BASE, mods=["one"])))
    assert len(found) == (reason is not None)
    for problem in found:
        assert problem.startswith("image.mods: files/mods/one/")
        assert reason in problem


LOOP = """\
CMD='sync; echo 3 > /proc/sys/vm/drop_caches'
nohup bash -c 'while true; do '"$CMD"'; sleep 60; done' >/dev/null 2>&1 &
echo $! > /tmp/pid"""


@pytest.mark.parametrize(
    ("script", "only"),
    [
        (LOOP, True),
        ("sync\nsysctl -w vm.drop_caches=3", True),
        (f"{LOOP}\npip install x", False),
        (f"cp a.py $WORKSPACE_DIR/\n{LOOP}", False),
        ("# drop_caches\nnohup x &", False),
    ],
)
def test_a_mod_that_only_empties_the_page_cache(site: Path, script: str, only: bool) -> None:
    assert one(site, script).drops_caches is only


def test_a_description_has_files_sizes_and_a_short_script_whole(site: Path) -> None:
    text = "\n".join(read_mods(["fix-tiny"])[0].description())
    assert "mod fix-tiny: 2 files, " in text
    assert f"tiny.patch  {len(PATCH)} bytes\n" in text
    assert "    | patch -p1 -d / < tiny.patch" in text
    mod(site, "fix-tiny", "true\n" * 100 + "pip install x")
    text = "\n".join(read_mods(["fix-tiny"])[0].description())
    assert "run.sh: read its 103 lines\n" in text
    assert "| true" not in text
    # A line that is cut would hide what it ends with: such a script is not shown as if whole.
    text = "\n".join(one(site, f"true {' ' * 600}; pip install x").description())
    assert "run.sh: read its 3 lines" in text
    assert "network: yes" in text


def test_a_description_moves_no_cursor_and_turns_no_text(site: Path) -> None:
    patch = b"+++ b/vllm/\x1b[2J/x.py\n"
    read = one(
        site, "echo '\x1b[2J'\ncp x /opt/\u202egnp.sh\npip install \x07", **{"x.diff": patch}
    )
    assert not [each for line in read.description() for each in line if not each.isprintable()]


LONG = [
    *("\n", "pip ", "sh a.py ", "set ", "sha256sum -", "\\\n", "x/", "a/f1.py ", "cp ", "hf "),
    *("pip -", "a && ", "git ", "sh f1.py\n", "-", "$" * 50 + "\n"),
]


@pytest.mark.parametrize("text", LONG)
def test_scripts_that_are_made_to_take_long_take_no_longer_than_others(
    site: Path, text: str
) -> None:
    """All together they are read up to a bound, whatever is in them, and once each."""
    files = {f"f{n}.py": (text * (2**17 // len(text))).encode() for n in range(16)}
    runs = "\n".join(f"python3 f{n}.py" for n in range(16))

    def seconds(read: ModFolder) -> float:
        begun = time.process_time()
        assert len("\n".join(read.description())) < 200_000
        list(read.impossible())
        _ = read.is_online, read.drops_caches
        return time.process_time() - begun

    usual = one(site, "cp a.py /opt/b.py\n" * (2**18 // 18))
    within = 10 * seconds(usual) + 0.5
    assert seconds(one(site, runs, **files)) < within
    assert seconds(one(site, text * (2**18 // len(text)))) < within


def test_scripts_that_are_too_long_to_be_read_are_refused(site: Path) -> None:
    (problem,) = one(site, "true\n" * 2**17).impossible()
    assert "bytes of scripts; expected 262,144, which can be read" in problem


def fleet(site: Path, *words: str) -> list[str]:
    (site / "sparks.yaml").write_text(
        "sparks:\n  a: {hardware: lab}\nreplicas:\n  chat: {recipe: mine, sparks: [a], "
        f"trusts: [tool-parser-plugin{''.join(f', {word}' for word in words)}]}}\n"
    )
    loaded = load_fleet(site / "sparks.yaml")
    return unsupported(loaded, {"mine": load_recipe("mine")})


def test_only_the_inventory_allows_a_mod_and_a_changed_one_anew(site: Path) -> None:
    word = read_mods(["fix-tiny"])[0].word
    (problem,) = fleet(site)
    assert "image.mods: fix-tiny runs a script as root" in problem
    assert f"trusts: [{word}, tool-parser-plugin]" in problem
    assert "| patch -p1 -d / < tiny.patch" in problem
    assert fleet(site, word) == []
    assert fleet(site, "mods") != []
    assert fleet(site, "mod:fix-tiny") != []
    mod(site, "fix-tiny", "true")
    (problem,) = fleet(site, word)
    assert "has changed since it was allowed" in problem
    new = read_mods(["fix-tiny"])[0].word
    assert new != word
    assert f"trusts: [{new}, tool-parser-plugin]" in problem


@pytest.mark.parametrize(
    ("option", "value", "needed"),
    [
        ("chat-template", "unsloth.jinja", False),
        ("reasoning-parser-plugin", "super_v3.py", False),
        ("chat-template", "/etc/x.jinja", True),
        ("chat-template", "../x.jinja", True),
        ("middleware", "x.py", True),
    ],
)
def test_what_a_mod_puts_into_the_engines_folder_needs_no_second_word(
    site: Path, option: str, value: str, needed: bool
) -> None:
    def words(image: object) -> set[str]:
        return {need.name for need in needs(recipe(image=image, args={option: value}))}

    assert option in words(BASE)
    assert (option in words({"base": BASE, "mods": ["fix-tiny"]})) is needed


def test_a_release_says_which_mods_its_image_has(site: Path) -> None:
    served = recipe(image={"base": BASE, "mods": ["fix-tiny"]})
    made = release(served, lock(digest=DIGEST))
    (read,) = read_mods(["fix-tiny"])
    assert f'"fix-tiny": "{read.digest}"' in made.files["release.json"]
    assert made.images == (made.image,)
    mod(site, "fix-tiny", "true")
    assert release(served, lock(digest=DIGEST)).id != made.id
