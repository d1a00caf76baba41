"""What runs on a Spark, where no operation looks."""

import json
from pathlib import Path

import pytest

from sparkwright.insight.drift.drift import (
    RunningContainer,
    parse_running,
    running_differences,
    running_script,
)
from sparkwright.plan.release.command import Ranks, container_arguments, environment
from tests.makers.release import release
from tests.makers.shell import program, shell

OTHER = "lab-tiny-99999999"


def running(
    declared: bool = True, limit: int | None = None, **parts: str
) -> list[tuple[str, str, str]]:
    """Return what is told of a Spark that runs one engine, but for some sections."""
    served = release()
    ours = container_arguments(served.recipe, Ranks())
    variables = [f"{key}={value}" for key, value in environment(served.recipe).items()]
    known = {"RELEASE": served.id, "ARGUMENTS": json.dumps(ours), "ENV": json.dumps(variables)}
    found = {"containers": CONTAINER, "image": "sha256:aa", "holds": "0x1, [N/A]", "held": "vim"}
    found |= {"kernel": KERNEL, "gpu": BUSY, "inside": "GPU 0: NVIDIA GB10", **parts}
    text = "\n".join(f"@@{name}\n{said}" for name, said in found.items())
    for word, value in known.items():
        text = text.replace(word, value)
    state = parse_running(text.splitlines())
    told = running_differences(state, served if declared else None, limit)
    return [tuple(each) for each in told]


CONTAINER = "RELEASE\tsha256:aa\tARGUMENTS\tENV"
BUSY = "2418, 61.42, 67, 96, [N/A], [N/A]"
KERNEL = "release 7.0.0-1019-nvidia\nline root=/dev/sda quiet\nhandover 0\npools"


def test_what_runs_otherwise() -> None:
    name, container = release().id, f"container vllm-{release().id}"
    assert running() == []
    assert running(containers="") == []
    assert running(holds="[N/A], [N/A]", image="") == []
    assert running(declared=False) == [("release that runs", "none", name)]
    assert running(containers=f"{OTHER}\tsha256:bb\t[]\tnull\n{CONTAINER}") == [
        ("release that runs", name, OTHER)
    ]
    assert running(containers=CONTAINER.replace("aa", "bb")) == [
        (f"{container}: image", "sha256:aa", "sha256:bb")
    ]
    by_hand = CONTAINER.replace("ARGUMENTS", '["serve", "--max-model-len", "77"]')
    assert running(containers=by_hand) == [(f"{container}: arguments", "its release's", "77")]
    assert running(containers=CONTAINER.replace("ARGUMENTS", "null")) == [
        (f"{container}: arguments", "its release's", "fewer")
    ]
    told = running(containers=CONTAINER.replace("ENV", '["PATH=/bin"]'))
    assert {each[1:] for each in told} == {("its release's value", "another")}
    # Of several GPUs the largest counts, as everywhere.
    assert running(holds="0x0000000000000008, 8192\n0x0000000000000001, 32607") == []
    assert running(holds="0x0000000000000088, [N/A]") == [
        ("GPU clock", "not held back", "held back by hardware slowdown"),
        ("GPU clock", "not held back", "held back by the power supply (power brake)"),
    ]
    assert running(held="vim\nufw-doc\nnvidia-driver-580-open\nlinux-nvidia-hwe\nufw") == [
        ("package nvidia-driver-580-open", "updated with the system", "held back"),
        ("package linux-nvidia-hwe", "updated with the system", "held back"),
        ("package ufw", "updated with the system", "held back"),
    ]
    assert running(limit=2200) == [("GPU clock", "at most 2200 MHz", "2418 MHz")]
    assert (
        running(limit=2200, gpu=BUSY.replace("2418", "208").replace("96", "0"))
        == running(limit=2200, gpu=BUSY.replace("2418", "[N/A]"))
        == running(limit=2200, gpu="")
        == []
    )
    assert running(kernel=KERNEL.replace("handover 0", "handover 9750528")) == [
        (
            "kernel 7.0.0-1019-nvidia, booted with `root=/dev/sda quiet`",
            "no memory kept for kexec handover (kho=off)",
            "9.3 GiB kept",
        )
    ]
    assert running(kernel=f"{KERNEL} 529") == [
        ("NVIDIA driver", "EnableSystemMemoryPools 0", "pools that keep memory")
    ]
    with pytest.raises(ValueError, match="unreadable"):
        parse_running(["@@containers"])


def test_the_script_reads_what_docker_says(tmp_path: Path) -> None:
    # Docker prints what stands between the parts of a template as it is: tabs.
    program(
        tmp_path / "docker",
        """\
case "$*" in
ps*) printf '4f6c\tvllm-a-1\t\ta-1\n77\tweb\t\t\n' ;;
image*) echo sha256:aa ;;
"inspect --format {{index .Config.Labels "*" 4f6c") printf 'a-1\tsha256:bb\t["serve"]\t["A=b"]\n' ;;
esac""",
    )
    done = shell(running_script(str(tmp_path), ["image@sha256:0"]), tmp_path)
    found = parse_running(done.stdout.splitlines())
    assert (found.image, found.holds) == ("sha256:aa", None)
    assert found.containers == {"a-1": RunningContainer("sha256:bb", ["serve"], ["A=b"])}


def test_a_gpu_that_is_held_back_under_load_or_lost() -> None:
    slow = "612 MHz and 28 W while 97 % busy"
    assert running(gpu="612, 28.10, 50, 97, [N/A], [N/A]") == [
        ("GPU clock under load", "as high as the load asks", slow)
    ]
    said = "Failed to initialize NVML: Unknown Error"
    assert running(inside=said) == [
        ("GPU in the engine's container", "there", f"nvidia-smi in the container: {said}")
    ]
    assert running(inside="exec: nvidia-smi: not found") == []
