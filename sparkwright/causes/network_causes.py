"""Causes in the connection between the two ranks of a pair, by the messages of NCCL and Gloo."""

from sparkwright.causes.cause import APPLY, KnownCause, LogCause

_FABRIC = f"{APPLY} says what is wrong with the link"

NCCL_ON_SOCKETS = KnownCause(
    name="nccl-on-sockets",
    cause="The two ranks talk by TCP, not by RDMA: slower, and without an error",
    remedy="Check that /sys/class/infiniband lists the fabric's devices; if not, reboot. "
    f"{_FABRIC}",
    source="luisefigueroa/pulsar-gb10-vllm-stack; NCCL falls back without an error",
)

NETWORK_CAUSES = (
    LogCause(
        name="nccl-wrong-interface",
        cause="NCCL or Gloo uses an interface other than the fabric",
        remedy="Remove NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME and NCCL_IB_HCA from the recipe's "
        "`env`: the engine finds them at each start; the cable is in the same port of "
        "both Sparks",
        source="NVIDIA's playbook speculative-decoding; gpustack/gpustack#2125",
        pattern=r"(?i)Socket operation on non-socket|no socket interface found|No interface found|"
        r"connectFullMesh failed|Unable to find address for",
    ),
    LogCause(
        name="gpus-too-few",
        cause="The recipe asks for more GPUs than there are: a Spark has one",
        remedy="Give the replica two Sparks (`sparks: [a, b]`), and remove tensor-parallel-size "
        "from the recipe's `args`: it follows from them",
        source="vLLM's checks of its parallel configuration; NVIDIA/dgx-spark-playbooks#63",
        pattern=r"exceeds available GPUs|required \w+s exceeds the total number of available|"
        r"World size \(\d+\) is larger than|Cannot provide a placement group|"
        r"Multiple Ranks are using the same GPU|CUDA error: invalid device ordinal|"
        r"Not enough resources to allocate",
    ),
    LogCause(
        name="gpus-indivisible",
        cause="The model cannot be split over this many GPUs: its heads, experts or quantization "
        "blocks are not divisible",
        remedy="Give the replica one Spark if the model fits there, else another checkpoint of "
        "it; with enable-expert-parallel the experts are not split",
        source="vLLM's checks of its parallel configuration; vllm-project/vllm#414, #52435",
        pattern=r"must be divisible by (tensor parallel|ep_?size|tp_?size)|"
        r"not aligned with the quantized weight shape|"
        r"is not divisible by weight quantization block",
    ),
    LogCause(
        name="rank-unreached",
        cause="One rank waited at the start for the other, which never connected",
        remedy="Look at the other Spark first: its engine did not start, or another release did. "
        f"If it runs there, {_FABRIC}",
        source="the words of torch and NCCL; vllm-project/vllm#15744, #19670",
        pattern=r"client socket has (timed out .* trying|failed) to connect to|"
        r"NCCL WARN .*onnect to \S+ failed|waiting for clients\b.* joined|"
        r"(?i:c10d|TCPStore|gloo|nccl)\b.*No route to host",
    ),
    LogCause(
        name="rdma-absent",
        cause="NCCL was told to use RDMA and finds no device for it in the container",
        remedy="Check that /sys/class/infiniband lists the fabric's devices; if not, reboot. "
        f"Remove NCCL_IB_HCA and NCCL_NET from the recipe's `env`. {_FABRIC}",
        source="NCCL's warnings; getainode/ainode#87",
        pattern=r"Failed to initialize any NET plugin|"
        r"NET/IB : (Unable to open device|No IP interface)",
    ),
    LogCause(
        name="nccl-versions",
        cause="The two Sparks run different versions of NCCL, so different images",
        remedy=f"{APPLY} gives both the same image",
        source="NCCL's warnings",
        pattern=r"Mismatched NCCL version detected",
    ),
    LogCause(
        name="rdma-gid",
        cause="The two network cards do not agree on their addresses (GIDs)",
        remedy="Remove NCCL_IB_GID_INDEX from the recipe's `env`; see that no port has an "
        f"address of 169.254, as NetworkManager gives by itself. {_FABRIC}",
        source="guardkit/dgx-spark: RUNBOOK-two-spark-bring-up.md",
        pattern=r"ibv_modify_qp\b.*(failed|Invalid argument|No data|timed out)",
    ),
    LogCause(
        name="rdma-timeout",
        cause="RDMA packets from one Spark were never acknowledged by the other",
        remedy=f"{_FABRIC}: cable, MTU, addresses. If all is well there, reboot both Sparks",
        source="NVIDIA/nccl#426; FujitsuPolycom/sparkring#278",
        pattern=r"Got completion .*(error |status=(\w+\()?)12\b|IBV_WC_RETRY_EXC_ERR|"
        r"NET/IB\b.*(async fatal event|failed devices out of)|RoCE collective .* timed out",
    ),
    LogCause(
        name="nccl-hang",
        cause="NCCL: the two ranks lost contact with each other",
        remedy="Update the image: NCCL 2.30.5 hangs two Sparks, 2.30.7 does not; with an image "
        'that must stay, NCCL_NVLS_ENABLE: "0" in the recipe\'s `env`',
        source="gorlak/sparky-cluster; NVIDIA/nccl#2167",
        pattern=r"Watchdog caught collective operation timeout|NCCL.*unhandled system|"
        r"Some NCCL operations have failed or timed out|watchdog (got|is) stuck",
    ),
)
