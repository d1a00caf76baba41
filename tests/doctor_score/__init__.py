"""The doctor's score over public incidents: python -m tests.doctor_score"""

import sys
from pathlib import Path

# Where the programs of a Spark are.
sys.path.append(str(Path(__file__).parents[2] / "files"))
