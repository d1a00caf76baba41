"""The report for an issue: what it tells of a Spark, and that nothing else gets into it."""

from dataclasses import replace
from pathlib import Path

import sparkwright
from sparkwright.causes.cause import Diagnosis
from sparkwright.doctor.checkup import Checkup, FailedSwitch, parse_checkup
from sparkwright.doctor.diagnosis import diagnose
from sparkwright.doctor.issue_report import LINES, Examined, issue_report
from sparkwright.doctor.redaction import Redactor
from sparkwright.doctor.site_names import site_names, spark_numbers
from sparkwright.fleet.fleet import Fleet, Replica, Spark
from sparkwright.recipe.loader import load_recipe
from tests.unit.doctor.test_checkup import NOW, output

RECIPE = load_recipe("qwen3.6-35b-fp8")
FLEET = Fleet(
    Path("sparks.yaml"),
    {"rack-a": Spark(ssh_hostname="192.168.7.20", ssh_user="alice"), "rack-b": Spark()},
    {"lawyers": Replica(recipe="qwen3.6-35b-fp8", sparks=["rack-a", "rack-b"])},
)
FAILS = parse_checkup(output(), NOW)


def report(checkup: Checkup | None, *diagnoses: Diagnosis, recipe: str = "qwen3.6-35b-fp8") -> str:
    own = RECIPE.model_copy(update={"name": recipe.rpartition("/")[2].removesuffix(".yaml")})
    hostnames = {"rack-a": checkup.system.hostname} if checkup else {}
    redact = Redactor(site_names(FLEET, {recipe: own}, hostnames, ["bob"]))
    found = Examined("gb10", own, recipe, 0, 2, checkup, diagnoses)
    return issue_report({"rack-a": found}, spark_numbers(FLEET), redact)


def test_it_tells_versions_causes_and_the_log_of_an_engine_that_failed() -> None:
    log = (*(f"line {number}" for number in range(40)), "spark-7f3a: no space left on device")
    checkup = replace(FAILS, log=log, skew=0)
    text = report(checkup, *diagnose(checkup))
    for row in (
        f"| Sparkwright | `{sparkwright.__version__}` |",
        "| Sparks | `1 of 2 in the inventory` |",
        "## spark1",
        "| hardware | `gb10 (NVIDIA_DGX_Spark)` |",
        "| system | `Ubuntu 24.04.3 LTS · DGX OS 7.2.3, updated to 7.6.0` |",
        "| firmware | `5.36_0ACUM018` |",
        "| kernel | `7.0.0-1019-nvidia` |",
        "| driver | `580.173.02` |",
        "| Docker | `28.3.3` |",
        "| recipe | `qwen3.6-35b-fp8, rank 0 of 2` |",
        f"| vLLM | `{RECIPE.vllm}` |",
        f"| image | `{RECIPE.base_image}` |",
        "| engine | `failed, restarts: 0. engine ended: its exit status was 1` |",
        "* **disk-space**: A disk is full",
        "  * seen: `free: 0.9 GiB at /var/lib/docker`",
    ):
        assert f"{row}\n" in text, row
    shown = text.partition("```text\n")[2].partition("\n```")[0].splitlines()
    assert len(shown) == LINES
    assert shown[-1] == "spark1: no space left on device"


def test_a_healthy_spark_shows_no_log() -> None:
    assert FAILS.unit
    unit = replace(FAILS.unit, active="active", status="serves")
    text = report(replace(FAILS, unit=unit))
    assert "### Causes\n\nNone.\n" in text
    assert "third life" not in text
    assert "```" not in text


def test_a_spark_that_cannot_be_read_is_named() -> None:
    text = report(None)
    assert "| recipe | `qwen3.6-35b-fp8, rank 0 of 2` |" in text
    assert text.endswith("It could not be read; the run said why.\n")


def test_nothing_private_gets_into_any_part_of_it() -> None:
    private = (
        "rack-a 192.168.7.20 alice@corp.io lawyers /home/carol hf_AbCdEf1234567890 spark-7f3a bob"
    )
    assert FAILS.unit
    checkup = replace(
        FAILS,
        log=(private,),
        unit=replace(FAILS.unit, status=private),
        kernel=private,
        driver=private,
        docker=private,
        failed=FailedSwitch(private, NOW, private, (private,)),
        system=replace(FAILS.system, product=private, firmware=private, name=private),
    )
    cause = Diagnosis("cause", f"It is {private}", private, private)
    text = report(checkup, cause, *diagnose(checkup), recipe="/home/carol/acme.yaml")
    for word in (*private.split(), "carol", "acme", "corp"):
        assert word not in text.lower().replace("hf_abcdef", "hf_AbCdEf"), word
    assert text.count("spark1 spark1 [email] replica1 /home/[user] [secret] spark1 [operator]") > 8
    assert "`own recipe, rank 0 of 2`" in text
    assert "| image |" not in text


def test_evidence_that_was_cut_shows_no_half_of_a_name() -> None:
    for length in range(1, 14):
        seen = "x " * ((300 - length) // 2) + "x" * (length % 2) + "192.168.7.201 and more"
        text = report(FAILS, Diagnosis("cause", "It is", seen[:300], "Nothing"))
        assert "192" not in text, length


def test_a_log_cannot_end_its_own_quotation() -> None:
    text = report(replace(FAILS, log=("```", "# heading \x1b[31m", "| cell `code`")))
    assert text.count("```") == 2
    assert "\x1b" not in text
    status = replace(FAILS.unit, status="a`b|c") if FAILS.unit else None
    assert "a'b¦c" in report(replace(FAILS, unit=status))
