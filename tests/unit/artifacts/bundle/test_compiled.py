"""What a bundle takes of code that Sparks have compiled."""

from pathlib import Path

import pytest

from sparkwright.artifacts.bundle import command
from sparkwright.plan.release.bundle import archives
from tests.makers.release import recipe


def test_it_takes_what_there_is_of_its_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archives().mkdir(parents=True)
    for name in ("try-0123abcd", "try-mtp-0123abcd", "other-0123abcd"):
        (archives() / f"{name}.tar").write_text(name)
    folder = tmp_path / "bundle"
    (folder / "compiled").mkdir(parents=True)
    (folder / "compiled/try-ffffffff.tar").touch()
    command._take_compiled(folder, [recipe()])
    assert [path.name for path in (folder / "compiled").iterdir()] == ["try-0123abcd.tar"]
    index = command._index(folder, command.Lock(), {})
    assert [*index.files] == ["compiled/try-0123abcd.tar"]
