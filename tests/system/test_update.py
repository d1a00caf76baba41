"""An update of Sparkwright on a Spark that an earlier one has set up: what served comes back.

What is earlier is planted: a release whose supervisor reads another unit.json than the present one,
as neither can read the other's.
"""

from tests.driver.client import ask
from tests.driver.declared import BROKEN, changed
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, only, standing, wait_active
from tests.lab.spark import Handle

EARLIER = "lab-tiny-0ea4113e"
# No room for a second engine: the one that serves has to stop, and to start again.
ALONE = 'VLLM_CPU_KVCACHE_SPACE: "1"', 'VLLM_CPU_KVCACHE_SPACE: "1000"'
PLANT = f"""
set -e
cd /opt/qwen36
now=$(basename $(readlink current))
port=$(sed -n 's/^  "port": \\([0-9]*\\).*/\\1/p' current/release.json)
cp -a releases/$now releases/{EARLIER}
sed -i s/longest_step/longest_walk/ releases/{EARLIER}/bin/engine releases/{EARLIER}/unit.json
sed -i s/$now/{EARLIER}/g releases/{EARLIER}/run
systemctl disable --now vllm@$now
sparkwright-host door /opt/qwen36 forget $now
systemctl enable --now vllm@{EARLIER}
sparkwright-host door /opt/qwen36 offer {EARLIER} $port
sparkwright-host door /opt/qwen36 prefer {EARLIER}
ln -sfnT releases/{EARLIER} current
echo 1700000000 {EARLIER} > state/history
rm -r releases/$now
"""


def program(spark: Handle) -> str:
    """Return the program that runs the engine of the release that serves."""
    pid = f"$(systemctl show -P MainPID vllm@{current(spark)})"
    words = spark.run(f"tr '\\0' '\\n' < /proc/{pid}/cmdline").stdout.split()
    return next(word for word in words if word.startswith("/opt/"))


def test_what_an_earlier_one_had_served_comes_back(spark: Handle, served: str) -> None:
    """The update's release does not start: the Spark goes back under the earlier program."""
    spark.run("sudo sh -s", stdin=PLANT)
    assert standing(spark) == only(EARLIER)
    with changed("broken", BROKEN, ALONE):
        pyinfra(DEPLOY).fails(f"{EARLIER} serves again")
    own = f"/opt/qwen36/releases/{EARLIER}/bin/engine"
    assert program(spark) == own
    assert "longest_walk" in spark.run(f"grep -a longest_walk {own}").stdout
    assert standing(spark) == only(EARLIER)


def test_it_also_comes_back_from_a_boot(spark: Handle, served: str) -> None:
    spark.reboot()
    wait_active(spark)
    assert standing(spark) == only(EARLIER)
    assert program(spark) == f"/opt/qwen36/releases/{EARLIER}/bin/engine"


def test_the_way_back_from_the_update_leads_there(spark: Handle, served: str) -> None:
    pyinfra(DEPLOY).succeeded()
    updated = current(spark)
    assert updated == served
    pyinfra("deploys/rollback.py").succeeded()
    assert standing(spark) == only(EARLIER)
    assert program(spark) == f"/opt/qwen36/releases/{EARLIER}/bin/engine"


def test_it_goes_with_all_its_programs(spark: Handle, served: str) -> None:
    pyinfra(DEPLOY).succeeded()
    pyinfra("deploys/clean.py", "--data", "keep_releases=0").succeeded()
    assert spark.run("ls /opt/qwen36/releases").stdout.split() == [served]
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert ask(spark).ok
