"""Other words for known causes, as programs print them; each cause's own log is in logs/."""

from pathlib import Path

import pytest
import yaml

from sparkwright.plan.causes.log_causes import from_log

WORDS = {
    line: name
    for name, lines in yaml.safe_load(Path(__file__).with_name("words.yaml").read_text()).items()
    for line in lines
}
HARMLESS = (
    "INFO 11-21 07:19:23 [gpu_worker.py:462] Available KV cache memory: 2.26 GiB",
    "WARNING 11-21 07:19:23 [x.py:1] ImportError: cannot import name 'deep_gemm'; not used",
    "No valid triton configs. OutOfResources: out of resource: triton_mm Required: 131072",
    "NCCL INFO Call to connect returned Connection refused, retrying",
    "NVRM: Xid (PCI:000f:01:00): 45, pid=1, Ch 00000008",
)


@pytest.mark.parametrize("line", WORDS)
def test_other_words_for_a_cause(line: str) -> None:
    assert from_log([line])[0].name == WORDS[line]


@pytest.mark.parametrize("line", HARMLESS)
def test_words_that_tell_of_nothing(line: str) -> None:
    assert from_log([line]) == []
