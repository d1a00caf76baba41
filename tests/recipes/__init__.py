"""Real vLLM judges recipes: the release that each names reads what its units would run."""
