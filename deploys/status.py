"""pyinfra inventory.py deploys/status.py: what the fleet does right now. Looks, changes nothing.

Again every 5 s, until Ctrl-C: --data watch=5    For machines: --data json=PATH, or json=-
"""

from sparkwright.insight.status import deploy as status

status.apply()
