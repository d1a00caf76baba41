"""What differs from what is declared? Changes nothing. For machines: --data json=-."""

from sparkwright.insight.drift import deploy as drift

drift.apply()
