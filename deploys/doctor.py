"""pyinfra inventory.py deploys/doctor.py: why does it not start? Looks, and changes nothing."""

from deploys.session import start_session
from deploys.steps import doctor

start_session()

doctor.apply()
