"""What of the recipes that others publish is taken, and how their vLLM judges it."""
