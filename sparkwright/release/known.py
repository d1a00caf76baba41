"""The digests and commits that public sources give for tags and branches of our recipes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field

from sparkwright.common import yaml
from sparkwright.common.schema import Model, Text, parse
from sparkwright.release.lock import Digest, Sha1

_FILE = Path(__file__).with_name("known.yaml")


class KnownImage(Model):
    """The digest of an image, and its source."""

    digest: Digest = Field(description="sha256:, and 64 hexadecimal digits")
    source: Text = Field(description="where it is published")


class KnownCheckpoint(Model):
    """The commit of a repository's branch, and its source."""

    commit: Sha1 = Field(description="a commit of 40 hexadecimal digits")
    source: Text = Field(description="where it is published")


class KnownDigests(Model):
    """Images by their reference, checkpoints by ``repo@revision``."""

    images: dict[str, KnownImage] = Field(default_factory=dict)
    checkpoints: dict[str, KnownCheckpoint] = Field(default_factory=dict)


@cache
def known() -> KnownDigests:
    """Return the content of ``known.yaml``."""
    return parse(KnownDigests, yaml.load(_FILE), str(_FILE))
