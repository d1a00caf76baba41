"""Mutation testing: small changes of the code that some test must notice."""
