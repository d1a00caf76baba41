"""The thresholds beyond which a reading is a fault, each with its unit and its source.

alerts.yml, group_data/all.py and units repeat some of them, because they cannot import:
tests/unit/plan/causes/test_thresholds.py compares them with these.
"""

from sparkwright.common.hardware import GIB

# MHz, W and per cent busy. Field reports: under load a Spark with the power-delivery fault stays at
# 500 to 860 MHz and about 30 W; a sound one has twice this clock, and draws more than this power.
FAULT_MHZ, FAULT_WATTS, FAULT_BUSY = 1200, 35, 80
# MHz of the fastest core while the GPU is busy: an engine keeps one core at its highest clock, 2800
# or more. Our own choice; 2000 were reported (eugr/spark-vllm-docker#104).
SLOW_CPU_MHZ = 2400
# W and per cent busy. A kernel that waits for ever counts as busy: 13 to 22 W at 96 % were reported
# of such engines, and 45 W and more of those that work.
SPIN_WATTS, SPIN_BUSY = 30, 90
# °C of a warm GPU, and the share of its clock that is left where heat slows it. Our own choice: no
# published figure is known.
WARM, FALLEN = 80, 0.8

# Per cent of the memory that is available when earlyoom ends the engine, and below which status
# warns: twice that. Our own choice.
EARLYOOM = 2
MEMORY_LOW = 2 * EARLYOOM
# Bytes a second to and from the disk: far above what an idle desktop swaps.
SWAPPING = 20 * 1024**2
# Share of the KV cache above which it has no room for another request.
KV_FULL = 0.95

# Bytes free for root on a disk, below which things begin to fail.
DISK_FULL = 2 * GIB
# Seconds by which two clocks may differ.
CLOCK_SKEW = 60
