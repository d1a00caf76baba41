"""The documentation: reference pages made from the code, and the hooks of the docs site."""
