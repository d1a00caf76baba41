"""What a Spark is: a module for each part, whose `read` returns plain data."""
