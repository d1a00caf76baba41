"""The TCP ports and addresses that several subjects share."""

# TCP ports of a pair, open on the fabric only: the link of the supervisors, the rendezvous of the
# two ranks, the share for weights, the worker's metrics, the head's image; UDP of the recorders.
PAIR_PORTS = 29500, 29501, 29502, 29503, 29504, 29505
LINK_PORT, MASTER_PORT, SHARE_PORT, METRICS_PORT, IMAGE_PORT, RECORDER_PORT = PAIR_PORTS

# The node exporter's, at which the door asks it: files/host/door/door.cfg.
EXPORTER_PORT = 9100
