"""The program of a switch, which a Spark runs by its own Python."""
