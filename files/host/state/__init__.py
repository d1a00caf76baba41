"""The parts of what a Spark is: a module for each subject, whose functions return plain data."""
