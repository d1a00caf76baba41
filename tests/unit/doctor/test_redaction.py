"""A public text has nothing that tells who, where, or how to get in."""

import time
from pathlib import Path

import pytest

from sparkwright.causes.log_causes import LOG_CAUSES
from sparkwright.doctor.host_causes import HOST_CAUSES, ROOT_CAUSES
from sparkwright.doctor.redaction import Redactor
from sparkwright.doctor.site_names import is_shipped, site_names, spark_numbers
from sparkwright.fleet.fleet import Fleet, Gateway, Replica, Spark
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.recipe import Checkpoint
from tests.clock import patience

LOGS = Path(__file__).parents[1] / "logs"
HF = "hf_" + "aBcD1eFgH2iJkL3mNoP4qRsT5uVwX6yZab"
SK = "sk-" + "Xy7_kQ2-vB9mN4pL6wR8tZ1cD3fG5hJ0aSdFgHjKlQw"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
KEY = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("connect to 192.168.178.42:8000 failed", "192.168.178.42"),
        ("(10.100.0.1, 29501)", "10.100.0.1"),
        ("enp1s0f0np0:169.254.7.9<0>", "169.254.7.9"),
        ("at 203.0.113.7.", "203.0.113.7"),
        ("listen on [fd12:3456:789a::42]:8000", "fd12:3456:789a::42"),
        ("tcp://[2001:db8::7]:29501", "2001:db8::7"),
        ("from fe80::4a0b:2dff:fe11:2233%enp1s0f0np0 to", "4a0b:2dff"),
        ("fe80:0000:0000:0000:4abb:2dff:fe11:2233", "4abb:2dff"),
        ("::ffff:192.168.1.5 port 22", "192.168.1.5"),
        ("at 2001:db8::9.", "2001:db8::9"),
        ("NET/IB : enp1s0f0np0:fd00::17<0>", "fd00::17"),
        ("in 0.5:fd00::18 s", "fd00::18"),
        ("link/ether 48:b0:2d:ab:cd:ef brd", "48:b0:2d"),
        ("MAC 48-B0-2D-AB-CD-EF", "48-B0-2D"),
        ("node_guid 48b0:2d03:00ab:cdef", "48b0:2d03"),
        ("UUID: GPU-12345678-90ab-cdef-1234-567890abcdef", "567890abcdef"),
        (f"HF_TOKEN={HF}", HF),
        (f"login with {HF}, done", HF),
        (f"Invalid token {HF[:20]}", HF[:20]),
        ("hf_abcdefghij is not valid", "abcdefghij"),
        (f"Authorization: Bearer {SK}", SK),
        (f"headers={{'authorization': 'Bearer {SK}', 'x': 1}}", SK),
        (f"bearer {SK[3:]}", SK[3:]),
        ("Authorization: Basic YWxpY2U6c2VjcmV0", "YWxpY2U6c2VjcmV0"),
        (f"the key {SK} was refused", SK),
        (f"cookie: session={JWT}", JWT),
        (f"got {JWT}", "eyJzdWIi"),
        ("api_key='correct horse battery'", "horse"),
        ('"VLLM_API_KEY": "hunter2"', "hunter2"),
        ("password=hunter2", "hunter2"),
        ("passphrase: hunter2", "hunter2"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7"),
        ("token: ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7"),
        ("nvapi-1234567890abcdef in the environment", "nvapi-1234"),
        ("https://alice:hunter2@models.example.com/x", "hunter2"),
        ("https://alice@models.example.com/x", "alice"),
        ("pulling registry.acme-corp.com:5000/team/vllm:1", "acme"),
        ("GET http://nas.fritz.box:8080/weights", "fritz"),
        ("HTTPSConnectionPool(host='hub.acme.io', port=443)", "acme"),
        ("https://huggingface.co.evil.example/x", "evil"),
        ("resolve dgx-7f3a.local failed", "dgx-7f3a"),
        ("mail alice.b+gpu@acme-corp.co.uk about it", "acme"),
        ("mail alice.b+gpu@acme-corp.co.uk about it", "alice"),
        ("/home/alice/models/x.safetensors", "alice"),
        ("'/Users/Alice/.cache'", "Alice"),
        (r"C:\Users\Alice\x", "Alice"),
        ("~alice/.ssh/id_ed25519", "alice"),
        ("user=alice logged in", "alice"),
        ("alice@192.168.1.7: Permission denied", "alice"),
        ("Serial Number: 1423524012345", "1423524012345"),
        ("serial=1ABC23", "1ABC23"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample alice@laptop", "AAAAC3"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample alice@laptop", "alice"),
        (f"SHA256:{KEY}a", KEY),
        (
            f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY}\nAAA=\n-----END OPENSSH PRIVATE KEY-----",
            KEY,
        ),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY}\nAAA=", "AAA="),
        ("machine-id 0123456789abcdef0123456789abcdef", "0123456789abcdef"),
        (f"signed {SK[3:]}.", SK[3:]),
        (
            "INFO Received request chatcmpl-1: prompt: 'my diagnosis', params: SamplingParams()",
            "diagnosis",
        ),
        ("prompt='my diagnosis'", "diagnosis"),
        ('{"messages": [{"role": "user", "content": "my diagnosis"}]}', "diagnosis"),
    ],
)
def test_what_is_private_goes(line: str, private: str) -> None:
    redacted = Redactor({})(f"before\nINFO 11-21 {line} and so on\nafter")
    assert private.lower() not in redacted.lower()
    assert redacted.startswith("before\n")
    assert "[" in redacted or "left out" in redacted


@pytest.mark.parametrize(
    "line",
    [
        "ImportError: vllm/v1/engine/core.py:1510: c10::Error at 12:34:56.789",
        "NCCL version 2.27.5+cuda13.0, driver 580.173.02, kernel 7.0.0-1019-nvidia",
        "Avg prompt throughput: 12.5 tokens/s, generation: 3.0 tokens/s, max_tokens=2048",
        "vllm@qwen3.6-35b-fp8-0a1b2c3d.service: Main process exited, code=exited, status=1/FAILURE",
        "image nvcr.io/nvidia/vllm:26.10-py3@sha256:" + "0a" * 32,
        "https://huggingface.co/Qwen/Qwen3.6-35B-A3B-FP8 and https://github.com/vllm-project/vllm.",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 at 127.0.0.1:8000, [::1]:8000 and 0.0.0.0",
        "Qwen3MoeForConditionalGeneration tokenizer='auto' eos_token_id=151645 hf_token=None",
        "NVRM: Xid (PCI:000f:01:00): 31, MMU Fault: FAULT_PTE at 0x7f_12340000",
        "hf_overrides={}, HF_HUB_OFFLINE=1, /root/.cache/vllm, /opt/qwen36/x@main",
        "less than desired GPU memory utilization (0.8, 97.4 GiB)",
    ],
)
def test_what_helps_stays(line: str) -> None:
    assert Redactor({})(line) == line


def test_our_own_texts_stay() -> None:
    redact = Redactor({})
    for each in (*LOG_CAUSES, *HOST_CAUSES, *ROOT_CAUSES):
        assert redact(f"{each.cause}\n{each.remedy}") == f"{each.cause}\n{each.remedy}"


def test_most_of_a_log_stays() -> None:
    """Known causes are found in a log that was redacted."""
    redact = Redactor({})
    logs = {path: path.read_text().partition("\n")[2] for path in LOGS.glob("*.log")}
    assert len(logs) > 80
    by_name = {cause.name: cause for cause in LOG_CAUSES}
    lost = [
        path.name
        for path, text in logs.items()
        if (cause := by_name.get(path.name.partition(".")[0]))
        and cause.evidence(text.splitlines())
        and not cause.evidence(redact(text).splitlines())
    ]
    assert lost == []


OWN = load_recipe("qwen3.6-35b-fp8").model_copy(
    update={
        "name": "acme-secret",
        "image": "registry.acme.internal/vllm:1.0",
        "served_names": ["acme-llm"],
        "checkpoints": {"model": Checkpoint(repo="acme/Private-7B", folder="private7")},
    }
)
FLEET = Fleet(
    Path("/home/alice/sparks.yaml"),
    {
        "rack-one": Spark(ssh_hostname="192.168.7.20", ssh_user="alice"),
        "rack": Spark(ssh_hostname="rack.acme.lan", ssh_key="~/.ssh/acme_key"),
        "a": Spark(),
    },
    {
        "chat": Replica(recipe="recipes/acme-secret.yaml", sparks=["rack-one"]),
        "lawyers": Replica(recipe="qwen3.6-35b-fp8", sparks=["rack", "a"]),
    },
    Gateway(ssh_hostname="gate.acme.lan"),
)


def redactor() -> Redactor:
    recipes = {name: load_recipe("qwen3.6-35b-fp8") for name in FLEET.recipes}
    recipes["recipes/acme-secret.yaml"] = OWN
    hostnames = {"rack-one": "SPARK-7F3A.acme.lan", "a": "spark-beef"}
    return Redactor(site_names(FLEET, recipes, hostnames, ["alice", "ws-17", "/home/alice", HF]))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rack-one and RACK and rack.acme.lan", "spark1 and spark2 and spark2"),
        ("http://192.168.7.20:8000 of spark-7f3a", "http://spark1:8000 of spark1"),
        ("spark-beef:454:604 [0] NCCL INFO", "spark3:454:604 [0] NCCL INFO"),
        ("alice at ws-17: gate.acme.lan", "[user] at [operator]: gateway"),
        ("key acme_key for lawyers", "key [file] for replica2"),
        ("/home/alice/x", "[operator]/x"),
        (
            "serving acme-llm of acme/Private-7B, private7@main",
            "serving own-model of own-model, own-model@main",
        ),
        ("vllm@acme-secret-0a1b2c3d.service", "vllm@own-recipe-0a1b2c3d.service"),
        ("docker run registry.acme.internal/vllm:1.0", "docker run [image]"),
        ("a disk of a chat with qwen3.6-35b-fp8", "a disk of a chat with qwen3.6-35b-fp8"),
        ("racket-one tracks", "racket-one tracks"),
    ],
)
def test_the_names_of_a_site_become_numbers(line: str, expected: str) -> None:
    assert redactor()(line) == expected


def test_a_recipe_of_the_site_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_shipped("qwen3.6-35b-fp8")
    assert not is_shipped("recipes/qwen3.6-35b-fp8.yaml")
    assert not is_shipped("acme-secret")
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "files/recipes/qwen3.6-35b-fp8.yaml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert not is_shipped("qwen3.6-35b-fp8")
    assert is_shipped("qwen3.6-35b-nvidia")
    assert spark_numbers(FLEET) == {"rack-one": "spark1", "rack": "spark2", "a": "spark3"}


@pytest.mark.parametrize(
    "piece",
    ["a", "1.", "a@", "1:", "ab:", "x=", "a.", "-", "/home", "token", "'", " ", "A1b", "://"],
)
def test_a_hostile_log_takes_little_time(piece: str) -> None:
    line = (piece * 2000)[:2000]
    began = time.monotonic()
    redactor()("\n".join([line] * 30))
    assert time.monotonic() - began < patience(2)
