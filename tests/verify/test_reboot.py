"""After a reboot the Spark serves again, with nobody's help."""

import time

import pytest

from tests.verify.test_engine import ask, chat


def test_serves_again_after_reboot(host, release, proved, request):
    if not request.config.getoption("--reboot"):
        pytest.skip("reboots the Spark: ask for it with --reboot")
    boot = host.check_output("cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat")
    begun = time.monotonic()
    host.run("systemctl reboot")
    deadline = begun + 300 + release.recipe.start_timeout
    while time.monotonic() < deadline:
        unit = host.run(
            "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat; "
            f"systemctl is-active vllm@{release.id}"
        )
        if unit.rc == 0 and not unit.stdout.startswith(boot):
            break
        time.sleep(2)
    else:
        pytest.fail(f"vllm@{release.id} was not active {deadline - begun:.0f} s after the reboot")
    ask(host, release, "/v1/chat/completions", chat(release))
    proved(f"serves again {time.monotonic() - begun:.0f} s after the order to reboot")
