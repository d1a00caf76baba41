"""Packages that come along with those that a deploy installs, and the archives that bring them."""

import pytest

from sparkwright.bundle.packages import apt_sources, needed

AVAILABLE = {
    "haproxy": {"Depends": "libc6 (>= 2.38), adduser, awk, logger | syslog, lua:any (= 5.4)"},
    "libc6": {"Pre-Depends": "libgcc-s1"},
    "libgcc-s1": {"Depends": "libc6 (>= 2.35)"},
    "gawk": {"Provides": "awk"},
    "mawk": {"Provides": "awk (= 1), mawk-bin", "Priority": "required"},
    "syslog": {},
    "lua": {},
    "unrelated": {},
}


def test_all_that_a_package_depends_on() -> None:
    # `adduser` is in no source: the Spark has it.
    expected = ["haproxy", "libc6", "libgcc-s1", "lua", "mawk", "syslog"]
    assert needed(["haproxy"], AVAILABLE) == expected


def test_what_is_there_already_is_alternative_enough() -> None:
    assert needed(["gawk", "haproxy"], AVAILABLE).count("mawk") == 0


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
