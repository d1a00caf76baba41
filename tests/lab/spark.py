"""A virtual Spark in the hands of a person or a test: its shell, its power switch, its cables."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.clock import patience
from tests.lab import factory, machine, network, rootfs, services, state, variants
from tests.lab.state import KNOWN_HOSTS, RUN, TWINS, Cable, LabError, Spark, State, Twin

# Seconds; a Spark boots in about 5.
_BOOT = 60
# Seconds between two questions by SSH: a connection costs 0.1 s of a processor, and what boots
# needs all of them.
_INTERVAL = 0.3


@dataclass(frozen=True)
class Handle:
    name: str

    @property
    def address(self) -> str:
        return network.address(self.name)

    def ssh_command(self, *command: str) -> list[str]:
        """Return the command that runs `command` (or a shell) on it, over SSH as its user."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "5",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(rootfs.keys() / "id_ed25519"),
            "LogLevel": "ERROR",
            # One connection serves the commands of some seconds.
            "ControlMaster": "auto",
            "ControlPath": str(RUN / f"{self.name}.ssh"),
            "ControlPersist": "10",
            "ServerAliveInterval": "5",
            "UserKnownHostsFile": str(KNOWN_HOSTS),
        }
        arguments = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return ["ssh", "-F", "none", *arguments, f"{factory.USER}@{self.address}", *command]

    def run(
        self, command: str, *, check: bool = True, timeout: float = 120, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on it, over SSH as its user (who may `sudo`)."""
        return subprocess.run(
            self.ssh_command(command),
            input=stdin,
            capture_output=True,
            text=True,
            check=check,
            timeout=patience(timeout),
        )

    def disconnect(self) -> None:
        """End the connection that its commands share; the next command makes another."""
        command = self.ssh_command()
        subprocess.run([*command[:-1], "-O", "exit", command[-1]], capture_output=True, check=False)

    def journal(self) -> str:
        """Return what systemd and its units have logged; "" from a Spark that does not answer."""
        try:
            return self.run("sudo journalctl --no-pager", check=False).stdout
        except subprocess.TimeoutExpired:
            return ""

    def running(self) -> bool:
        supervisor = self.record().supervisor
        return supervisor is not None and supervisor.alive()

    def wait_ready(self, timeout: float = _BOOT) -> None:
        """Wait until it has booted: SSH takes the user, and systemd has started everything."""

        def ready() -> bool:
            if not self.running():
                raise LabError(f"{self.name} is off; see {RUN / self.name}.log")
            if not services.answers(self.address, 22):
                return False
            # An engine that waits for its peer keeps the system "starting".
            booted = self.run("systemctl is-active multi-user.target", check=False)
            return booted.stdout.strip() == "active"

        state.wait_for(ready, timeout, f"{self.name} to boot", interval=_INTERVAL)

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id", timeout=10).stdout.strip()

    def reboot(self) -> None:
        boot = self.boot_id()
        self.run("sudo systemctl reboot", check=False)

        def rebooted() -> bool:
            try:
                return self.boot_id() != boot
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return False

        state.wait_for(rebooted, _BOOT, f"{self.name} to reboot", interval=_INTERVAL)
        self.wait_ready()

    def start(self) -> None:
        """Switch it on; for callers that hold the lab's lock."""
        lab = state.require()
        self._of(lab).supervisor = machine.power_on(self.name)
        state.write(lab)

    def power_off(self) -> None:
        """Cut its power: no process of it gets to do anything more."""
        self.disconnect()
        with self._changing() as (_, spark):
            machine.power_off(self.name, spark.supervisor)
            spark.supervisor = None

    def power_on(self) -> None:
        """Switch it on; return while it boots."""
        with state.locked():
            if not self.running():
                self.start()

    def reset(self, variant: str = "standard") -> None:
        """Put it back into a factory state, cables and delays too, and wait until it has booted."""
        variants.check(variant)
        rootfs.layers(variant)
        self.disconnect()
        with state.locked():
            lab = state.require()
            spark = self._of(lab)
            machine.power_off(self.name, spark.supervisor)
            if spark.line:
                spark.line.end()
            machine.forget(self.name)
            lab.sparks[self.name] = Spark(
                factory=variant, cables=network.delivered(self.name, lab.together)
            )
            state.write(lab)
            self.start()
        self.wait_ready()

    def cable(
        self, whole: bool = True, *, twin: Twin | None = None, port: int | None = None
    ) -> None:
        """Mend or cut its fabric cables, which carry both twins; the other end notices, too."""
        with self._changing() as (lab, spark):
            twins = {twin} if twin else set(TWINS)
            for place, cable in spark.cables.items():
                if port in (None, place):
                    cable.cut = cable.cut - twins if whole else cable.cut | twins
            network.wire(lab)

    def plug(self, ports: Mapping[int, int]) -> None:
        """Put cables into its ports, by the numbers of both, and none into the others."""
        with self._changing() as (lab, spark):
            spark.cables = {port: Cable(number=number) for port, number in ports.items()}
            network.wire(lab)

    def mtu(self, size: int = 9000) -> None:
        """Let its fabric cables swallow all larger packets, both ways, without telling anyone."""
        with self._changing() as (lab, spark):
            for cable in spark.cables.values():
                cable.mtu = size
            network.wire(lab)
            for name, each in lab.sparks.items():
                if each.supervisor:
                    network.segment(name, lab.sparks)

    def netem(self, delay: float = 0, loss: float = 0) -> None:
        """Delay and lose frames of its LAN each way, by seconds and a share; by default none."""
        with self._changing() as (_, spark):
            if spark.line:
                spark.line.end()
            spark.line = None
            if delay or loss:
                options = ("--delay", str(delay), "--loss", str(loss))
                command = state.module("line", self.name, *options)
                spark.line = state.start(f"{self.name}-line", command)
                network.wait_for_line(self.name)
            network.set_direct(self.name, direct=spark.line is None)

    def bound(self, memory: int | None = None, processes: int | None = None) -> None:
        """Let it have so much until its next boot; by default as much as the machine has."""
        machine.limit(self.name, memory, processes)

    @contextmanager
    def _changing(self) -> Iterator[tuple[State, Spark]]:
        """Give the lab's state and this Spark's, which are written down afterwards."""
        with state.locked():
            lab = state.require()
            try:
                yield lab, self._of(lab)
            finally:
                state.write(lab)

    def record(self) -> Spark:
        return self._of(state.require())

    def _of(self, lab: State) -> Spark:
        if self.name not in lab.sparks:
            raise LabError(f"no Spark {self.name} is up; there are: {', '.join(lab.sparks)}")
        return lab.sparks[self.name]
