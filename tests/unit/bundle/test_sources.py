"""The sources by which a Spark's apt reads the archives of a bundle."""

import pytest

from sparkwright.bundle.packages import apt_sources


@pytest.mark.parametrize(
    ("paths", "lines"),
    [
        (["Packages", "InRelease", "a_1_arm64.deb"], ["/0 ./"]),
        (["arm64/Packages"], ["/0 arm64/"]),
        (
            [f"dists/noble/{name}/binary-arm64/Packages" for name in ("main", "universe")],
            ["/0 noble main universe"],
        ),
        (["dists/x [trusted=yes]/main/binary-arm64/Packages"], []),
        (["dists/x\ndeb/main/binary-arm64/Packages"], []),
    ],
)
def test_the_sources_of_archives(paths: list[str], lines: list[str]) -> None:
    folder = "packages/arm64"
    found = apt_sources([f"{folder}/0/{path}" for path in paths], folder, "/r/bundle")
    assert found == [f"deb copy:/r/bundle/{folder}{line}" for line in lines]
