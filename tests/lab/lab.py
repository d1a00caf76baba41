"""The lab as a whole, for the command line and for tests: up, down, and what is there."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from sparkwright.door.certificates import authority_folder
from sparkwright.door.keys import keys_path
from sparkwright.plan.release.lock import lock_path
from tests.lab import apt, factory, machine, network, rootfs, services, setup, state, variants
from tests.lab.spark import Handle
from tests.lab.state import (
    FLEET,
    KNOWN_HOSTS,
    RUN,
    STORAGE,
    Engine,
    LabError,
    Spark,
    State,
    Together,
)

FINGERPRINT = RUN / "apt-fingerprint"

# Settings of the machine that the lab changes.
_KERNEL = (Path("/proc/sys/net/ipv4/ip_forward"),)


class Lab:
    def up(
        self,
        sparks: int = 1,
        variant: str = "standard",
        *,
        together: Together = "alone",
        engine: Engine = "vllm",
    ) -> None:
        """Start services and Sparks, and wait for them; what a crash left is removed first."""
        setup.check_machine()
        variants.check(variant)
        names = rootfs.SPARKS[:sparks]
        fleet = fleet_text(names, together)
        with state.locked():
            before = state.read()
            if before and _whole(before):
                asked = dict.fromkeys(names, variant)
                found = {name: spark.factory for name, spark in before.sparks.items()}
                running = all(spark.running() for spark in self.sparks())
                same = (before.together, before.engine) == (together, engine)
                if found == asked and same and running:
                    print(f"up already: {', '.join(names)}", flush=True)
                    return
                raise LabError(
                    f"another lab is up already, with {', '.join(before.sparks)}; "
                    "first remove it: python -m tests.lab down"
                )
            self._clear()
            with setup.step("root file system"):
                rootfs.layers(variant)
            with setup.step("network"):
                kernel = {file: file.read_text() for file in _KERNEL}
                lab = State(together=together, engine=engine, kernel=kernel)
                state.write(lab)
                network.create()
            for name, (port, _) in services.SERVICES.items():
                with setup.step(f"{name} on {network.HOST}:{port}"):
                    lab.services[name] = services.start(name)
                    state.write(lab)
            FINGERPRINT.write_text(apt.fingerprint(apt.ensure_repository()))
            KNOWN_HOSTS.write_text("".join(map(_known_host, names)))
            FLEET.write_text(fleet)
            lab.sparks = {
                name: Spark(factory=variant, cables=network.delivered(name, together))
                for name in names
            }
            state.write(lab)
            for spark in self.sparks():
                spark.start()
        for spark in self.sparks():
            with setup.step(f"{spark.name} at {spark.address}"):
                spark.wait_ready()

    def ensure(self, sparks: int, engine: Engine, *, together: Together = "alone") -> list[Handle]:
        """Have a lab of these Sparks up, in place of another one or of a damaged one."""
        lab = state.read()
        same = lab and (len(lab.sparks), lab.together, lab.engine) == (sparks, together, engine)
        sound = same and lab and _whole(lab)
        if not (sound and all(_intact(each, together) for each in self.sparks())):
            self.down()
            self.up(sparks, together=together, engine=engine)
        return self.sparks()

    def down(self) -> None:
        """Remove everything of the lab but its caches, whatever state it is in."""
        setup.check_root()
        with state.locked():
            self._clear()

    def spark(self, name: str) -> Handle:
        handle = Handle(name)
        handle.record()
        return handle

    def sparks(self) -> list[Handle]:
        return [Handle(name) for name in state.require().sparks]

    def _clear(self) -> None:
        lab = state.read()
        for process in lab.services.values() if lab else ():
            process.end()
        for name in rootfs.SPARKS:
            spark = lab.sparks.get(name, Spark()) if lab else Spark()
            if spark.line:
                spark.line.end()
            Handle(name).disconnect()
            machine.power_off(name, spark.supervisor)
            machine.forget(name)
        machine.remove_groups()
        network.remove()
        for file, before in lab.kernel.items() if lab else ():
            file.write_text(before)
        for folder in (STORAGE, RUN):
            shutil.rmtree(folder, ignore_errors=True)
        FLEET.unlink(missing_ok=True)
        keys_path(FLEET).unlink(missing_ok=True)
        shutil.rmtree(authority_folder(FLEET), ignore_errors=True)
        # The next lab may serve other bits under the same names.
        lock_path(FLEET).unlink(missing_ok=True)


def fleet_text(names: Sequence[str], together: Together = "alone") -> str:
    size = {"alone": 1, "pairs": 2, "ring": 3}.get(together, len(names))
    if len(names) % size:
        raise LabError(f"found {len(names)} Sparks for {together}; expected a multiple of {size}")
    sparks = {
        name: {
            "ssh_hostname": network.address(name),
            "ssh_user": factory.USER,
            "ssh_key": str(rootfs.keys() / "id_ed25519"),
            "ssh_known_hosts_file": str(KNOWN_HOSTS),
            "hardware": "lab",
        }
        for name in names
    }
    replicas = {
        f"lab{start // size + 1}": {
            "recipe": "lab-tiny",
            "sparks": list(names[start : start + size]),
            # The model's scripted tools; and what tests have vLLM refuse.
            "trusts": ["tool-parser-plugin", "unknown-flag"],
        }
        for start in range(0, len(names), size)
    }
    head = "# Written by `python -m tests.lab up`, removed by `down`.\n"
    return head + yaml.safe_dump({"sparks": sparks, "replicas": replicas}, sort_keys=False)


def _whole(lab: State) -> bool:
    """Tell whether an `up` came to its end and nothing has crashed since."""
    alive = [name for name, process in lab.services.items() if process.alive()]
    return network.is_up() and alive == [*services.SERVICES] and bool(lab.sparks)


def _intact(spark: Handle, together: Together) -> bool:
    """Tell whether a Spark is on, left the factory sound, and has its cables as delivered."""
    wiring = spark.record().model_copy(update={"supervisor": None})
    return spark.running() and wiring == Spark(cables=network.delivered(spark.name, together))


def _known_host(name: str) -> str:
    kind, key, _ = (rootfs.keys() / f"{name}.pub").read_text().split(maxsplit=2)
    return f"{network.address(name)} {kind} {key}\n"
