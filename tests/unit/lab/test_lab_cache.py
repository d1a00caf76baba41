"""What the lab builds once: kept while somebody uses it, and never half built."""

import os
import time

import pytest

from tests.lab import cache


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty cache."""
    monkeypatch.setenv("SPARKWRIGHT_CACHE", str(tmp_path))
    return tmp_path


def build(folder):
    (folder / "built").write_text("content")


def test_an_entry_is_built_once():
    first = cache.entry("root", "inputs", build)
    assert (first / "built").read_text() == "content"
    assert cache.entry("root", "inputs", pytest.fail) == first


def test_the_content_of_a_file_is_an_input(tmp_path):
    file = tmp_path / "script"
    file.write_text("one")
    first = cache.entry("root", [file], build)
    file.write_text("two")
    assert cache.entry("root", [file], build) != first


def test_a_build_that_fails_leaves_nothing(folder):
    def fail(folder):
        build(folder)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cache.entry("root", "inputs", fail)
    assert [path.name for path in folder.iterdir()] == ["root.lock"]


def test_what_went_unused_for_a_day_makes_room():
    used, unused, other = (
        cache.entry(name, inputs, build) for name, inputs in (("a", "1"), ("a", "2"), ("b", "1"))
    )
    long_ago = time.time() - 2 * 24 * 60 * 60
    for entry in (used, unused, other):
        os.utime(entry, (long_ago, long_ago))
    cache.entry("a", "1", pytest.fail)
    cache.entry("a", "3", build)
    assert used.exists()
    assert not unused.exists()
    assert other.exists()
