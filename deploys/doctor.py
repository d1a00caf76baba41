"""Why does it not start? Looks, and changes nothing."""

from sparkwright.insight.doctor import deploy as doctor
from sparkwright.run.session import start_session

start_session(whole=False)
doctor.apply()
