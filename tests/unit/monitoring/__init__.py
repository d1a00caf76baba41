"""Monitoring: what Spark, Prometheus and Grafana are given, and all of it together on loopback."""

import sys
from pathlib import Path

FILES = Path(__file__).parents[3] / "files" / "monitoring"

sys.path.insert(0, str(FILES))
