"""Recipes that other projects publish: where they are, and how they become ours."""
