"""The logs of the engines, by ssh."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click

from sparkwright.cli.run import site_fleet
from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.declared.fleet.fleet import Fleet, Reached
from sparkwright.run.ssh import password_asked


def chosen_spark(fleet: Fleet, name: str | None) -> str:
    """Return the Spark of a name: of its own, or of a replica's head; None is the only replica."""
    heads = {replica: each.sparks[0] for replica, each in fleet.replicas.items()}
    known = [*heads, *fleet.sparks]
    if name is None:
        if len(heads) == 1:
            return next(iter(heads.values()))
        raise PlanError(f"found no name; expected one of {', '.join(known)}")
    if name not in known:
        raise PlanError(f"found {name}; {nearest(name, known)}")
    return heads.get(name, name)


def ssh_words(name: str, spark: Reached) -> list[str]:
    """Return the words that run a command line on a Spark, as pyinfra would reach it."""
    if spark.local:
        return ["sh", "-c"]
    known, strict = spark.ssh_known_hosts_file, spark.ssh_strict_host_key_checking
    options = (
        ("-p", spark.ssh_port if "ssh_port" in spark.model_fields_set else None),
        ("-l", spark.ssh_user),
        ("-i", Path(spark.ssh_key).expanduser() if spark.ssh_key else None),
        ("-o", known and f"UserKnownHostsFile={known}"),
        ("-o", f"StrictHostKeyChecking={strict}"),
    )
    words = [word for key, value in options if value for word in (key, str(value))]
    return ["ssh", *words, "--", spark.ssh_hostname or name]


def unasked(name: str, spark: Reached) -> str:
    """Return the shell command that ends a script where sudo would ask for a password."""
    refusal = shlex.quote(password_asked(name, spark.ssh_user))
    return f"sudo -n true 2>/dev/null || {{ echo {refusal} >&2; exit 1; }}"


# What our own door, supervisor and Prometheus ask, as vLLM logs it where it went well.
_PROBES = '"GET /(health|metrics|v1/models)[^"]*" 200'


def journal_script(lines: int, follow: bool, everything: bool) -> str:
    """Return the shell script that prints the journal of the engines and of their switches."""
    journal = "journalctl --no-pager --no-hostname --unit='vllm@*' --unit='switch@*'"
    chosen = "cat" if everything else f"grep --line-buffered -vE '{_PROBES}'"
    last = f'{journal} --until="@$now" --reverse | {chosen} | head -n {lines} | tac'
    onward = f'; {journal} --since="@$now" --follow --no-tail | {chosen}'
    return f"now=$(date +%s); {last}{onward if follow else ''}"


@click.command()
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(1), default=100, show_default=True)
@click.option("--all", "everything", is_flag=True, help="With what our own probes ask.")
def logs(name: str | None, follow: bool, lines: int, everything: bool) -> None:
    """Show an engine's log. NAME is a Spark or a replica.

    Ctrl-C ends the display; the engine goes on. What door, supervisor and
    Prometheus ask every few seconds is left out.

    Of a Spark that serves two replicas, the lines of both engines are shown.

    Example: sparkwright logs chat -f -n 20

    Runs: ssh SPARK sudo journalctl --unit='vllm@*'
    """
    fleet = site_fleet()
    spark = chosen_spark(fleet, name)
    words = ["sudo", "-n", "sh", "-c", journal_script(lines, follow, everything)]
    script = f"{unasked(spark, fleet.sparks[spark])}; {shlex.join(words)}"
    words = [*ssh_words(spark, fleet.sparks[spark]), script]
    if not shutil.which(words[0]):
        raise click.ClickException(f"found no {words[0]}; expected OpenSSH's client")
    # In the place of this process, ssh would end with a status of its own at Ctrl-C.
    sys.exit(subprocess.run(words, check=False).returncode)
