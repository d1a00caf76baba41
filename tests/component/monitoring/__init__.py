"""Monitoring: what Spark, Prometheus and Grafana are given, and all of it together on loopback."""
