"""pyinfra inventory.py deploys/spark.py: from the factory state to a served model.

One step alone: pyinfra inventory.py sparkwright.artifacts.weights.deploy.apply
"""

from sparkwright.deploy import converge

converge()
