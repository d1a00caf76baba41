"""The confinement of an engine's container, and its GPU."""

# Docker's options that give a container the GPU. `--gpus`, which uses the toolkit's hook instead of
# its runtime, fails on Sparks whose toolkit generates CDI specifications, its default since 1.18
# (dusty-nv/jetson-containers#1703; NVIDIA/nvidia-container-toolkit#1910). ig1 and docai.hu name
# the runtime, too.
_GPU = ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all")


# The confinement of an engine. It needs no capability of root's, opens no port below 1024, and
# starts no program that changes its user. It writes into its home, /tmp and /dev/shm; compilers and
# Triton load libraries from /tmp, which must be executable. The bounds are far above the needs of a
# healthy engine: threads (compiling on 20 cores takes about a thousand), bytes of /tmp, and of
# /dev/shm (NVIDIA's own start on a Spark has 16g, vLLM's run_cluster.sh 10.24g).
CONFINEMENT = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "8192"),
    *("--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=8g,mode=1777"),
    *("--ipc", "private", "--shm-size", "16g"),
)

# The options of engines, and of the container that proves the GPU before anything is fetched or
# switched.
CONTAINER_OPTIONS = (*_GPU, *CONFINEMENT)
