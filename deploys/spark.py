"""From the factory state to a served model."""

from sparkwright.deploy import converge

converge()
