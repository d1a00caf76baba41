"""The inventory, and the first of this package that a run of pyinfra imports."""

import sys

# pyinfra turns bytecode off, for the sake of deploy files, which are not imported: with that, each
# run compiles this package, and what it imports, anew.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
