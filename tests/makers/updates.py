"""What apt and the next boot bring to a Spark."""

from typing import Any

SYSTEM = {"kernel": "6.17.0-1032-nvidia", "driver": "580.173.02", "Docker": "28.3.3"}
UP_TO_DATE: dict[str, Any] = {"newer": [], "fault": "", "now": SYSTEM, "then": SYSTEM}
