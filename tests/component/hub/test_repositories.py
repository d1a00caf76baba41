"""What the lab publishes, and how folders become commits."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import tests.lab
from tests.lab import hub
from tests.lab.hub.repositories import LFS_THRESHOLD, PUBLISHED, load


def test_the_recipes_names_are_published(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, texts = tmp_path / "models-0123456789ab", tmp_path / "texts-0123456789ab"
    for folder, part in ((models, "model"), (models, "dflash"), (texts, "model")):
        shutil.copytree(model, folder / part)
        (folder / part / "part").write_text(part if folder == models else "texts")
    for module, folder in (("tiny_model", models), ("tiny_texts", texts)):
        maker = SimpleNamespace(ensure_models=lambda folder=folder: folder)
        monkeypatch.setattr(tests.lab, module, maker, raising=False)
    monkeypatch.setenv("SPARKWRIGHT_CACHE", str(tmp_path / "cache"))
    root = hub.ensure_repositories()
    repositories = {name: load(root, name) for name in PUBLISHED}
    for name, repository in repositories.items():
        assert repository is not None
        assert repository.gated == (name == "sparkwright/gated-tiny")
        content = repository.find("main").files["part"].source.read_text()  # type: ignore[union-attr]
        kinds = (kind for kind in ("dflash", "texts") if kind in name.lower())
        assert content == next(kinds, "model")
    assert hub.ensure_repositories() == root


def test_a_commit_follows_from_its_content(tmp_path: Path, model: Path) -> None:
    first = hub.add_commit(tmp_path / "a", "lab/tiny", model)
    assert hub.add_commit(tmp_path / "b", "lab/tiny", model) == first
    assert hub.add_commit(tmp_path / "a", "lab/other", model) != first
    assert hub.add_commit(tmp_path / "a", "lab/tiny", model) != first
    (model / "config.json").write_text("{}")
    assert hub.add_commit(tmp_path / "c", "lab/tiny", model) != first


def test_large_files_go_to_lfs(tmp_path: Path, model: Path) -> None:
    (model / "at").write_bytes(b"x" * LFS_THRESHOLD)
    (model / "above").write_bytes(b"x" * (LFS_THRESHOLD + 1))
    hub.add_commit(tmp_path / "hub", "lab/tiny", model)
    repository = load(tmp_path / "hub", "lab/tiny")
    assert repository is not None
    in_lfs = {path for path, file in repository.commits[0].files.items() if file.sha256}
    assert in_lfs == {"above", "model.safetensors"}


@pytest.mark.parametrize("name", ["tiny", "../up/tiny", "lab/..", "lab/tiny/v1", "/lab/tiny"])
def test_a_name_is_organisation_and_name(tmp_path: Path, model: Path, name: str) -> None:
    with pytest.raises(ValueError, match="expected organisation/name"):
        hub.add_commit(tmp_path / "hub", name, model)
    assert load(tmp_path / "hub", name) is None
