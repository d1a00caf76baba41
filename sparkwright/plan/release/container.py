"""The confinement of an engine's container, and its GPU."""

# Docker's options that give a container the GPU. `--gpus`, which uses the toolkit's hook instead of
# its runtime, fails on Sparks whose toolkit generates CDI specifications, its default since 1.18
# (dusty-nv/jetson-containers#1703; NVIDIA/nvidia-container-toolkit#1910). ig1 and docai.hu name
# the runtime, too.
_GPU = ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all")


# Docker's network of engines that may fetch media; `remove` finds it by its label.
MEDIA_NETWORK = "sparkwright"
NEW_MEDIA_NETWORK = (
    f"docker network create --label {MEDIA_NETWORK} "
    f"--opt com.docker.network.bridge.enable_icc=false {MEDIA_NETWORK} >/dev/null"
)

# The confinement of an engine, which runs as a user of its own, without rights. It needs no
# capability, opens no port below 1024, and starts no program that changes its user. The devices of
# GPU and RDMA are everybody's (0666, as NVIDIA's driver and rdma-core make them). It writes into
# its home, /tmp and /dev/shm; compilers and Triton load libraries from /tmp, which must be
# executable. The bounds are far above the needs of a healthy engine: threads (compiling on 20 cores
# takes about a thousand), bytes of /tmp, and of /dev/shm (NVIDIA's own start on a Spark has 16g,
# vLLM's run_cluster.sh 10.24g).
CONFINEMENT = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "8192"),
    *("--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=8g,mode=1777"),
    *("--ipc", "private", "--shm-size", "16g"),
)

# The options of engines, and of the container that proves the GPU before anything is fetched or
# switched.
CONTAINER_OPTIONS = (*_GPU, *CONFINEMENT)
