"""The report for an issue: what it tells of a Spark, and that nothing else gets into it."""

from types import SimpleNamespace

import sparkwright
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.insight.doctor.checkup import Checkup, FailedSwitch
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.insight.doctor.report import heading, section
from sparkwright.plan.causes.log_causes import Diagnosis
from tests.makers.doctor import HEALTHY, KERNEL, NOW, SYSTEM, UNIT
from tests.makers.models import changed

RECIPE = load_recipe("qwen3.6-35b-fp8")
FAILS = changed(
    HEALTHY,
    unit=changed(UNIT, active="failed"),
    free={"/opt/qwen36": 1_000_000_000},
    system=SYSTEM,
)


def report(checkup: Checkup, *diagnoses: Diagnosis, recipe: str = "qwen3.6-35b-fp8") -> str:
    own = SimpleNamespace(
        hardware_class="gb10",
        recipe=RECIPE.model_copy(update={"name": recipe.rpartition("/")[2].removesuffix(".yaml")}),
        recipe_name=recipe,
        rank=0,
        ranks=("a", "b"),
    )
    lines = section("spark1", own, checkup, diagnoses)  # type: ignore[arg-type]
    return "\n".join([*heading(1, 2), *lines, ""])


def test_it_tells_versions_causes_and_figures() -> None:
    assert report(FAILS).endswith("### Causes\n\nNone.\n")
    checkup = changed(FAILS, log=("no space left on device",), skew=0)
    text = report(checkup, *diagnose(checkup))
    for row in (
        f"| Sparkwright | `{sparkwright.__version__}` |",
        "| Sparks | `1 of 2 in the inventory` |",
        "## spark1",
        "| hardware | `gb10` |",
        "| product | `NVIDIA_DGX_Spark` |",
        "| system | `Ubuntu 24.04.3 LTS` |",
        "| DGX OS | `7.2.3` |",
        "| DGX OS, updated to | `7.6.0` |",
        "| firmware | `5.36_0ACUM018` |",
        "| kernel | `6.17.0-1032-nvidia` |",
        "| driver | `580.173.02` |",
        "| Docker | `28.3.3` |",
        "| recipe | `qwen3.6-35b-fp8, rank 0 of 2` |",
        f"| vLLM | `{RECIPE.vllm}` |",
        "| engine | `failed, restarts: 0` |",
        "* disk-space",
    ):
        assert f"{row}\n" in text, row


def test_no_text_of_the_spark_gets_into_it() -> None:
    private = "rack-a alice@corp.io hf_AbCdEf1234567890 | `x` \x1b[31m"
    assert FAILS.unit
    checkup = changed(
        FAILS,
        log=(private,),
        unit=changed(FAILS.unit, status=private),
        kernel=changed(KERNEL, release=private),
        driver=private,
        docker=private,
        failed=FailedSwitch(release=private, at=NOW, reason=private, log=(private,)),
        system=dict.fromkeys(FAILS.system, private),
    )
    cause = Diagnosis("cause", f"It is {private}", private, private)
    text = report(checkup, cause, *diagnose(checkup), recipe="/home/carol/acme.yaml")
    for word in (*private.split(), "carol", "acme"):
        assert word == "|" or word not in text, word
    assert "| kernel | not shown: it is no version |" in text
    assert "`own recipe, rank 0 of 2`" in text
    assert "| image |" not in text
