"""A second replica that the inventory names no more: all that is its own goes."""

from sparkwright.engine.operations.power import vacated
from tests.unit.driven import fake_host

UNITS = """\
@@seat
embed
@@seats
/r/seats/embed/releases/b-1/unit.json:  "seat": "embed",
@@current
releases/b-1
@@enabled
vllm@a-1.service
vllm@b-1.service
@@share
@@switches
switch@b-2.service
switch@a-2.service
@@units
Id=vllm@a-1.service
ActiveState=active
NRestarts=0
NeedDaemonReload=no

Id=vllm@b-1.service
ActiveState=active
NRestarts=0
NeedDaemonReload=no
"""


def test_none_is_left_as_it_is() -> None:
    spark = fake_host({"/seats 2>/dev/null": "read/"})
    assert not spark.run(vacated, root="/r", wanted=[]).did_change()
    spark = fake_host({"/seats 2>/dev/null": "embed\nread/"})
    assert not spark.run(vacated, root="/r", wanted=["embed"]).did_change()


def test_what_nobody_declares_goes_and_the_first_one_stays() -> None:
    spark = fake_host({"ls /r/seats": "embed\nread/", "@@seats": UNITS})
    result = spark.run(vacated, root="/r", wanted=[])
    assert result.did_change()
    done = [script for script in spark.scripts() if "@@" not in script and "ls /r" not in script]
    text = "\n".join(done)
    assert "disable --quiet --now vllm@b-1.service" in text
    assert "disable --quiet --now door@embed.service" in text
    assert (
        "rm -rf /r/door/seats/embed /r/sockets/seats/embed /r/state/seats/embed /r/seats/embed"
        in text
    )
    assert "rm -f /etc/systemd/system/door@.service" in text
    assert "a-1" not in text
    assert "a-2" not in text


def test_another_one_stays() -> None:
    spark = fake_host({"ls /r/seats": "embed\nrank\nread/", "@@seats": UNITS})
    spark.run(vacated, root="/r", wanted=["rank"])
    text = "\n".join(spark.scripts())
    assert "/r/seats/embed" in text
    assert "rmdir" not in text
    assert "door@.service" not in text
