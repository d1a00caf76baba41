"""The confinement of an engine's container, and its GPU."""

# Docker's options that give a container the GPU. `--gpus`, which asks the toolkit's hook and not
# its runtime, fails on Sparks whose toolkit makes a list of devices (CDI), its way since 1.18
# (dusty-nv/jetson-containers#1703; NVIDIA/nvidia-container-toolkit#1910). ig1 and docai.hu name
# the runtime, too.
_GPU = ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all")


# What an engine may not. It needs no capability of root's, opens no port below 1024, and starts no
# program that changes its user. It writes into its home, /tmp and /dev/shm: compilers and Triton
# load what they have put into /tmp, so that must be executable. Bounds are for an engine gone wild,
# and far above a sound one: threads (one that compiles on 20 cores has about a thousand), bytes of
# /tmp, and of /dev/shm (NVIDIA's own start on a Spark has 16g, vLLM's run_cluster.sh 10.24g).
CONFINEMENT = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "8192"),
    *("--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=8g,mode=1777"),
    *("--ipc", "private", "--shm-size", "16g"),
)


# Both together are what an engine gets, and what proves the GPU before anything is fetched for it,
# or what serves is touched.
CONTAINER_OPTIONS = (*_GPU, *CONFINEMENT)
