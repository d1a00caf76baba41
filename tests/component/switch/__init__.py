"""The program of a switch, which a Spark runs by its own Python."""

from pathlib import Path

FILES = Path(__file__).parents[3] / "files" / "host"
