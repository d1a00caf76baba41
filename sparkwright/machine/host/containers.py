"""Readings of Docker and of NVIDIA's toolkit that several facts share."""

from sparkwright.common.host_output import shared

# Lines: version, storage driver, folder, values of the driver's status, names of the runtimes. It
# takes thrice the time of other commands, as it asks all plugins of the client.
INFO = shared(
    "docker-info",
    "docker info --format '{{.ServerVersion}}\n{{.Driver}}\n{{.DockerRootDir}}\n"
    "{{range .DriverStatus}}{{index . 1}}|{{end}}\n"
    "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}'",
)
# Of each container that runs, with tabs between: id, name, ports, release.
RUNNING = shared(
    "docker-ps",
    r"docker ps --no-trunc --format "
    r"""'{{.ID}}\t{{.Names}}\t{{.Ports}}\t{{.Label "sparkwright.release"}}'""",
)
# The ids of our engines' containers that run.
ENGINES = f"{RUNNING} | awk -F '\\t' '$4 {{print $1}}'"
TOOLKIT = shared("nvidia-ctk", "nvidia-ctk --version")
