"""The engine's supervisor, which a Spark runs by its own Python."""
