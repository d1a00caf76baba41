"""The engine's supervisor, which a Spark runs by its own Python."""

from pathlib import Path

PROGRAMS = Path(__file__).parents[3] / "files" / "host" / "engine"
