"""Which packages come along with those that a deploy installs."""

from sparkwright.bundle.packages import needed

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
