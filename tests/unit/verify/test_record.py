"""A record of what was proved: nothing of its owner gets into it, and what is no record is refused.

All records here are made up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.verify.record import FORMS, machine_of, speeds_of
from tests.makers.doctor import HEALTHY, KERNEL, SYSTEM
from tests.makers.models import changed
from tests.recipes import records
from tests.recipes.catalogue import speed

RECIPE, DIGEST = "qwen3.6-35b-nvidia", f"vllm/vllm-openai@sha256:{'a' * 64}"
KNOWN = changed(HEALTHY, system=SYSTEM)
PRIVATE = (
    "spark-a",
    "rack-7.example.org",
    "alice",
    "alice@corp.io",
    "192.168.1.20",
    "fe80::1",
    "48:b0:2d:aa:bb:cc",
    "1420225012345",
    "hf_AbCdEf1234567890",
    "sk-0123456789abcdef",
    "/home/alice/.ssh/id_ed25519",
    "580.95.05\n192.168.1.20",
)


def record(**values: Any) -> dict[str, Any]:
    return {
        "recipe": RECIPE,
        "date": "2026-11-20",
        "sparkwright": "0.1.0",
        "hardware": "gb10",
        "machines": [machine_of(KNOWN)],
        "model": f"nvidia/Qwen3.6-35B-A3B-NVFP4@{'0' * 40}",
        "image": DIGEST,
        "proved": 31,
        "rebooted": True,
        **values,
    }


def written(path: Path, *own: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.dump({"records": [*own]}))
    return path


def test_what_a_spark_is() -> None:
    assert machine_of(KNOWN) == {
        "product": "NVIDIA_DGX_Spark",
        "firmware": "5.36_0ACUM018",
        "system": "Ubuntu 24.04.3 LTS",
        "DGX OS": "7.6.0",
        "kernel": "6.17.0-1032-nvidia",
        "driver": "580.173.02",
        "Docker": "28.3.3",
    }


@pytest.mark.parametrize("private", PRIVATE)
def test_nothing_that_names_somebody_is_taken_from_a_spark(private: str) -> None:
    says = dict.fromkeys((*KNOWN.system, "serial", "hostname"), private)
    kernel = changed(KERNEL, release=f"6.17.0-{private}", command_line=private)
    own = changed(KNOWN, kernel=kernel, driver=private, docker=private, system=says, log=(private,))
    assert machine_of(own) == {}


@pytest.mark.parametrize("private", PRIVATE)
@pytest.mark.parametrize("key", records.ProofRecord.model_fields)
def test_nothing_that_names_somebody_passes_as_a_record(
    tmp_path: Path, key: str, private: str
) -> None:
    """`recipe` and `hardware` are names, which the table of recipes knows or refuses."""
    machine = dict.fromkeys(FORMS, private)
    values = {"machines": [machine], "figures": {private: {"tok_s": 1.0}}}
    file = written(tmp_path / "7.yaml", record(**{key: values.get(key, private)}))
    with pytest.raises(PlanError, match=f"records\\[0\\].{key}"):
        records.read(file)


def test_a_good_one_is_taken(tmp_path: Path) -> None:
    file = written(tmp_path / "7.yaml", own := record(figures={"short": {"tok_s": 74.0}}))
    assert [each.model_dump() for each in records.read(file)] == [own]
    assert records.main([file]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipe": "lab-tiny"}, "hardware: found gb10; expected nothing"),
        ({"recipe": "qwen3.6-35b-nvida"}, "recipe: found qwen3.6-35b-nvida; did you mean"),
        ({"hardware": "rtx-5090"}, "hardware: found rtx-5090; expected gb10"),
        ({"machines": []}, "machines: found []; expected one a Spark"),
        ({"machines": [{}] * 3}, "machines: found [{}, {}, {}]; expected one a Spark"),
        ({"machines": [{"serial": "1"}]}, "machines[0].serial: found an unknown key"),
        ({"model": f"else/where@{'0' * 40}"}, "model: found else/where@0000"),
        ({"image": f"harbor.corp.lan/vllm@sha256:{'a' * 64}"}, "image: found harbor.corp.lan"),
        ({"date": "2099-01-01"}, "date: found 2099-01-01; expected 20"),
        ({"proved": 10**9}, "proved: found 1000000000; expected how many sentences"),
        (
            {"figures": {"short": {"tok_s": 1e9}}},
            "figures.short.tok_s: found 1000000000.0;",
        ),
        ({"figures": {"short": {"price": 1.0}}}, "figures.short.price"),
        ({"owner": "alice"}, "owner: found an unknown key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    file = written(tmp_path / "7.yaml", record(**change))
    with pytest.raises(PlanError) as refused:
        records.read(file)
    assert said in str(refused.value)
    assert all(each.startswith(f"{file}:") for each in refused.value.problems)
    assert records.main([file]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "records: found nothing; expected a list of records"),
        ("- 1\n", "found a list; expected a mapping"),
        ("records: &a [*a]\n", "found the anchor &a"),
        ("records: !!python/object:os.system []\n", "found the tag"),
        (f"records: {'[' * 99}\n", "expected at most 32 levels"),
        (f"records: [{'1, ' * 400_000}1]\n", "found more than 1,048,576 bytes"),
    ],
    ids=range(6),
)
def test_what_is_no_record_at_all(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "7.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as refused:
        records.read(file)
    assert said in str(refused.value)


def test_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"records: found .* expected a list of records"):
        records.read(written(tmp_path / "7.yaml", *[record()] * 51))


def test_the_table_tells_how_many_owners_and_the_last_one(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    assert records.proofs(RECIPE, speed, folder) == ""
    written(
        folder / "7.yaml", record(), record(date="2026-11-21", figures={"short": {"tok_s": 74.2}})
    )
    records.owners.cache_clear()
    first = "last on 2026-11-21, with driver 580.173.02, kernel 6.17.0-1032-nvidia, DGX OS 7.6.0"
    assert records.proofs(RECIPE, speed, folder) == f"run by an owner, {first}, 74 tokens/s"
    written(folder / "9.yaml", record(date="2026-11-22", machines=[{}]))
    records.owners.cache_clear()
    assert records.proofs(RECIPE, speed, folder) == "run by 2 owners, last on 2026-11-22"
    assert records.proofs("qwen3.5-35b", speed, folder) == ""


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[str, str], None]:
    def write(name: str, about: str) -> None:
        text = '{"about": "%s", "figures": {"short": {"tok_s": 74.26, "ttft_ms": 9}, "start": {}}}'
        (tmp_path / f"{name}.json").write_text(text % about)

    return write


def test_the_speeds_are_those_of_this_very_release(
    tmp_path: Path, measured: Callable[[str, str], None]
) -> None:
    assert speeds_of(tmp_path, "chat", "tiny-1") == {}
    measured("chat-20261120-100000", "chat: tiny-1 with vLLM 1 on 1 x gb10")
    measured("chat-20261121-100000", "chat: tiny-2 with vLLM 1 on 1 x gb10")
    assert speeds_of(tmp_path, "chat", "tiny-1") == {"short": {"tok_s": 74.26}}
    assert speeds_of(tmp_path, "chat", "tiny-3") == {}


def test_the_records_of_owners_are_good() -> None:
    for each in records.FOLDER.glob("*.yaml"):
        assert records.read(each)
