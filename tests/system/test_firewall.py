"""ufw on a virtual Spark: the door comes through it, and SSH is never locked out."""

from sparkwright.machine.firewall.deploy import enabling
from tests.clock import patience
from tests.driver.product import LAN, pyinfra
from tests.driver.sparks import eventually
from tests.lab import services
from tests.lab.spark import Handle

STEP = ("sparkwright.machine.firewall.deploy.apply", "--limit", "spark1")
ON = (*STEP, "--data", "firewall=on")


def rules(spark: Handle) -> list[str]:
    return spark.run("sudo ufw show added").stdout.splitlines()[1:]


def status(spark: Handle) -> str:
    return spark.run("sudo ufw status | head -n 1; grep ENABLED /etc/ufw/ufw.conf").stdout.strip()


def reached(spark: Handle) -> bool:
    """Tell whether a new connection to sshd comes through."""
    return services.answers(spark.address, 22)


def test_a_ufw_that_is_off_is_left_so(spark: Handle) -> None:
    spark.reset()
    run = pyinfra(*STEP).succeeded().says("ufw is off, and left so")
    assert run.changed == frozenset()
    assert rules(spark) == ["(None)"]


def test_the_door_comes_through_a_ufw_that_is_on(spark: Handle) -> None:
    spark.reset()
    spark.run("sudo ufw allow 22/tcp && sudo ufw --force enable")
    assert pyinfra(*STEP, "--dry").plan == pyinfra(*STEP).succeeded().changed != frozenset()
    assert rules(spark) == ["ufw allow 22/tcp", "ufw allow 8000/tcp comment 'sparkwright door'"]
    assert pyinfra(*STEP).succeeded().changed == frozenset()


def test_turned_on_it_stays_on_over_a_boot(spark: Handle) -> None:
    spark.reset()
    assert pyinfra(*ON, "--dry").plan
    pyinfra(*ON).succeeded()
    assert status(spark) == "Status: active\nENABLED=yes"
    assert pyinfra(*ON).succeeded().changed == frozenset()
    spark.reboot()
    assert status(spark) == "Status: active\nENABLED=yes"
    assert "ufw allow 22/tcp comment 'sparkwright ssh'" in rules(spark)


def test_what_would_lock_us_out_is_undone(spark: Handle) -> None:
    """A rule of the owner's, which comes first, refuses new connections from this machine."""
    spark.reset()
    spark.run(f"sudo ufw deny from {LAN}")
    pyinfra(*ON).fails("No new connection comes through ufw: it is off again")
    assert status(spark) == "Status: inactive\nENABLED=no"


def test_it_undoes_itself_when_nobody_is_left_to(spark: Handle) -> None:
    """The run dies with its connection, right after ufw was turned on."""
    spark.reset()
    spark.run(f"sudo ufw deny from {LAN}")
    assert reached(spark)
    spark.run("sudo sh -s", stdin=enabling(seconds=int(patience(8))))
    assert not reached(spark)
    spark.disconnect()
    eventually(lambda: reached(spark), "the firewall to go off")
    assert status(spark) == "Status: inactive\nENABLED=no"
