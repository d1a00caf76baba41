"""Monitoring: what Spark, Prometheus and Grafana are given, and all of it together on loopback."""

from pathlib import Path

FILES = Path(__file__).parents[3] / "files" / "host" / "insight" / "monitoring"
