"""The files of Prometheus and Grafana: python -m deploys.monitoring --help."""

import sys

from sparkwright.monitoring.command import main
from sparkwright.run.last_resort import guarded

if __name__ == "__main__":
    sys.exit(guarded(main))
