"""The TCP ports and addresses that several subjects share."""

# TCP ports of a pair, open on the fabric only: the link of the supervisors, the rendezvous of the
# two ranks, the share from which the worker copies, and the worker's metrics.
PAIR_PORTS = LINK_PORT, MASTER_PORT, SHARE_PORT, METRICS_PORT = 29500, 29501, 29502, 29503

# Where a head lends checkpoints to the heads of other replicas, on its LAN address.
LAN_SHARE_PORT = 29504

# The node exporter's, at which the door asks it: files/host/door/door.cfg.
EXPORTER_PORT = 9100

# Each release has a port of its own, as two may run at once; below Linux's ephemeral ports.
ENGINE_PORTS = range(18000, 19000)

# The same for the second engine of a Spark: so the two never meet.
SEAT_PORTS = range(19000, 20000)

# The address of engines, which only the door reaches.
LOOPBACK = "127.0.0.1"
