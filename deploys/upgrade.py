"""Kernel, driver, toolkit and Docker that runs hold become new, of one replica: --limit REPLICA."""

from sparkwright.machine.host.operations.system import system_packages, upgrade
from sparkwright.run.session import start_session

start_session(lease=True)
upgrade(name="Packages of the system")
system_packages(name="Marks, which an upgrade ends")
