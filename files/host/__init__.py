"""The files of a host: units, templates, and the programs of a Spark as one package.

The programs use the standard library of the system's Python alone; those that talk to the Hugging
Face Hub and the gateway's have an environment of their own.
"""
