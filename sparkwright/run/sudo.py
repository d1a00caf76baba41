"""The check that sudo on a Spark asks for no password."""

from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.operations import spark_name
from sparkwright.run.lost import password_asked


def check_sudo(spark: Host) -> None:
    """Refuse a password: pyinfra would pass it on in an environment that the host's users see.

    Raises:
        PyinfraError: Sudo asks for one, or is missing.
    """
    # pyinfra reads sudo's complaint, and would ask for the password.
    answered, _ = spark.run_shell_command(StringCommand("sudo -n true 2>/dev/null"))
    if answered:
        return
    name = spark_name(spark)
    there, _ = spark.run_shell_command(StringCommand("command -v sudo >/dev/null"))
    if not there:
        remedy = "On the Spark, as root: apt-get install sudo"
        raise PyinfraError(f"{name}: found no sudo; expected it. {remedy}")
    raise PyinfraError(password_asked(name, spark.data.dict().get("ssh_user")))
