"""The reading of a Spark that the doctor judges."""

import os
from dataclasses import replace

import pytest

from sparkwright.engine.metrics import Finished, finished
from sparkwright.insight.doctor.checkup import FailedSwitch, checkup_script, parse_checkup
from sparkwright.insight.doctor.diagnosis import from_switch
from sparkwright.insight.doctor.gpu import GpuReading
from tests.makers.doctor import LOG, NOW, RELEASE, UNITS, output
from tests.makers.shell import shell


def test_a_reading():
    found = parse_checkup(output(), NOW)
    assert found.release == RELEASE
    assert found.unit is not None
    assert found.unit.ended
    assert found.skew == -120
    assert found.memory == (127601452 * 1024, 2904588 * 1024, 54525952 * 1024)
    assert found.swapped == 512 * 4096
    assert found.free["/var/lib/docker"] == 1_000_000_000
    assert (found.docker, "nvidia" in found.runtimes) == ("28.3.3", True)
    assert found.gpu == GpuReading(611.0, 14.21, 45.0, 97.0, None, None)
    assert found.gpu_inside is None
    assert found.downs == 1
    assert found.finished is None
    assert found.system == {
        "product": "NVIDIA_DGX_Spark",
        "firmware": "5.36_0ACUM018",
        "system": "Ubuntu 24.04.3 LTS",
        "DGX OS": "7.2.3",
        "DGX OS, updated to": "7.6.0",
    }


def test_the_last_life_is_read_with_what_the_kernel_said_since():
    log = parse_checkup(output(), NOW).log
    assert log[1:] == (
        "the third life: with a colon",
        "and a second line",
        "Out of memory: Killed process 300 (VLLM::EngineCor)",
    )


def test_after_a_spark_went_down_the_kernels_last_words_are_read():
    words = "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY]"
    lines = output()
    down = NOW - 3600
    at = lines.index("@@clock")
    lines[at:at] = [f"{down - age}.5 spark1 kernel: {age} {words}" for age in (7200, 60)]
    log = parse_checkup(lines, NOW).log
    assert f"60 {words}" in log
    assert f"7200 {words}" not in log
    no_downs = [line.replace(f", {down}]", "]") for line in lines]
    assert f"60 {words}" in parse_checkup(lines, NOW).log
    assert parse_checkup(no_downs, NOW).downs == 0


def test_after_a_restart_the_life_before_is_read_as_well():
    log = parse_checkup(output(restarts=1), NOW).log
    assert "the second life" in log
    assert "the first life" not in log


def test_of_a_unit_that_is_no_longer_loaded_the_last_life_is_read():
    lines = "\n".join(output())
    for gone in (UNITS.replace("RESTARTS", "0"), f"\nvllm@{RELEASE}.service"):
        lines = lines.replace(gone, "")
    found = parse_checkup(lines.split("\n"), NOW)
    assert found.unit is None
    assert "the third life: with a colon" in found.log
    assert "the second life" not in found.log


def test_a_docker_that_does_not_answer_and_a_gpu_that_does_not_tell():
    lines = "\n".join(output())
    lines = lines.replace('28.3.3\n{"io.containerd.runc.v2":{},"nvidia":{},"runc":{}}', "")
    found = parse_checkup(
        lines.replace("611, 14.21, 45, 97", "[N/A], [N/A], 45, [N/A]").split("\n"), NOW
    )
    assert (found.docker, found.runtimes) == (None, ())
    assert found.gpu is not None
    assert (found.gpu.work, found.gpu.held_back) == (None, None)


def test_a_switch_that_failed_is_read():
    tried = f'lab-new-1\n{NOW - 3600}\n{{"phase": "failed", "message": "it did not start"}}\n{LOG}'
    lines = "\n".join(output()).replace("@@switch", f"@@switch\n{tried}").split("\n")
    failed = parse_checkup(lines, NOW).failed
    assert failed is not None
    told = (failed.release, failed.at, failed.reason)
    assert told == ("lab-new-1", NOW - 3600, "it did not start")
    assert failed.log[1:] == ("the third life: with a colon", "and a second line")
    (said,) = from_switch(failed)
    assert (said.name, said.evidence) == ("switch-failed", "it did not start")
    assert "lab-new-1 on 2026-11-21 06:50 UTC" in said.cause
    known = replace(failed, log=("vllm: error: unrecognized arguments: --x",))
    (cause,) = from_switch(known)
    assert cause.name == "unknown-flag"
    assert "lab-new-1 did not come to serve on 2026-11-21 06:50 UTC. " in cause.cause
    assert from_switch(None) == []
    assert from_switch(failed, wanted="lab-new-1") == [said]
    # The inventory asks for another release again, or for none: it is history.
    assert from_switch(failed, wanted="lab-old-1") == from_switch(failed, wanted="") == []


def test_the_script_finds_the_switch_that_failed_last(tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name, phase in (("switch@old", "failed"), ("switch@new-2", "failed")):
        (jobs / f"{name}.json").write_text(f'{{"phase": "{phase}", "message": "no"}}\n')
    os.utime(jobs / "switch@old.json", (1, 1))
    os.utime(jobs / "switch@new-2.json", (7, 7))
    assert _read(tmp_path).failed == FailedSwitch("new-2", 7, "no", ())
    (jobs / "switch@new-3.json").write_text('{"phase": "done", "message": ""}\n')
    assert _read(tmp_path).failed is None


def _read(root):
    # Its second look at the swap comes at once.
    script = checkup_script(str(root)).replace("sleep 1", "true")
    done = shell(script)
    return parse_checkup(done.stdout.splitlines(), NOW)


def test_an_incomplete_reading_is_an_error():
    with pytest.raises(ValueError, match="incomplete"):
        parse_checkup(output()[:4], NOW)


def test_the_script_reads_a_machine_without_anything(tmp_path):
    found = _read(tmp_path)
    assert (found.release, found.finished, found.failed) == (None, None, None)
    assert found.memory[0] > 0
    assert found.kernel
    assert found.system["system"]


# Lines of /metrics as vLLM 0.26.0 and 0.32.0 print them; the numbers are made up.
METRICS = """\
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 44.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0.0
vllm:request_generation_tokens_bucket{engine="0",le="1.0",model_name="m"} 40.0
vllm:request_generation_tokens_bucket{engine="0",le="2.0",model_name="m"} 41.0
vllm:request_generation_tokens_bucket{engine="0",le="+Inf",model_name="m"} 47.0
"""


def test_how_requests_ended_without_our_probes():
    assert finished(METRICS.splitlines()) == Finished(cut=4, ended=3)
    assert finished([]) is None
