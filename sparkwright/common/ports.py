"""The TCP ports and addresses that several subjects share."""

# TCP ports of a group, open on the fabric only: the link of the supervisors, the rendezvous of the
# ranks, the share for weights, a worker's metrics, an image; UDP of the recorders; the head's for
# the copies of a model that is data parallel.
PAIR_PORTS = tuple(range(29500, 29507))
LINK_PORT, MASTER_PORT, SHARE_PORT, METRICS_PORT, IMAGE_PORT, RECORDER_PORT, COPIES_PORT = (
    PAIR_PORTS
)
# Those at which an engine listens beside ports that the kernel chooses.
ENGINE_PORTS = MASTER_PORT, COPIES_PORT

# The node exporter's, at which the door asks it: files/host/door/door.cfg.
EXPORTER_PORT = 9100
