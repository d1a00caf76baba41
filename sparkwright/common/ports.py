"""The TCP ports and addresses that several parts of a Spark agree on."""

# TCP ports of a pair, open on the fabric only: the supervisors' link, the rendezvous of the two
# ranks, the share from which the worker copies, and the worker's metrics.
PAIR_PORTS = LINK_PORT, MASTER_PORT, SHARE_PORT, METRICS_PORT = 29500, 29501, 29502, 29503

# Where the door asks it: files/door/door.cfg.
EXPORTER_PORT = 9100

# Two releases can run side by side: each has a port of its own, below those that Linux gives away.
ENGINE_PORTS = range(18000, 19000)

# Where an engine listens: the door alone stands before it.
LOOPBACK = "127.0.0.1"
