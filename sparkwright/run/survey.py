"""The survey of a Spark: the facts that the operations of a run ask for, read in one command.

pyinfra reads a fact when an operation asks for it, by a command of its own: a run that changes
nothing was twenty round trips. Here each operation is asked for its first command, as pyinfra does
to predict a change, and the facts that it asks for on the way are read together. Later, it gets
these answers as long as nothing has changed: the first other command on a Spark of the replica ends
that, and so does a minute; to an operation each answer serves once. The plan of a run is made in
the same way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
from pyinfra import context, host
from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback

from sparkwright.common.operations import AskedError, planning, surveying
from sparkwright.run.connection import Asked, SparkConnection, asking, connection_of

# Rounds of a survey: an operation may ask for a second fact by what it has of a first.
_ROUNDS = 2


class Surveyor(BaseStateCallback):
    """Surveys each Spark before its first operation."""

    def __init__(self) -> None:
        self._surveyed: set[Host] = set()

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        """Take the survey, in the part of the run that is this host's own."""
        if host not in self._surveyed and isinstance(host.connector, SparkConnection):
            self._surveyed.add(host)
            _survey(state, host)


# The parts of runs, one a host, whose operations are planned once all of them are known.
_collecting: set[object] = set()


@contextmanager
def surveyed() -> Iterator[None]:
    """Have the current host surveyed before the operations of this block are planned, and run."""
    part = gevent.getcurrent()
    if part in _collecting:
        yield
        return
    run: Any = context.state
    own: Any = run.inventory.get_host(host.name)
    connection_of(own)
    if not any(isinstance(each, Surveyor) for each in run.callback_handlers):
        run.add_callback_handler(Surveyor())
    # With it, pyinfra plans each operation where it is called.
    run.should_check_for_changes = lambda: (
        run.check_for_changes and gevent.getcurrent() not in _collecting
    )
    planned = {*own.op_hash_order}
    _collecting.add(part)
    try:
        yield
    finally:
        _collecting.discard(part)
    if run.should_check_for_changes():
        _survey(run, own)
        counts = run.get_meta_for_host(own)
        for op_hash in (each for each in own.op_hash_order if each not in planned):
            will_change = run.get_op_data_for_host(own, op_hash).operation_meta.will_change
            counts.ops_change += will_change
            counts.ops_no_change -= will_change


def _survey(run: State, own: Host) -> None:
    """Read what the operations of a host ask for, of this Spark and of the other one of its pair.

    A command that fails brings no answers: the fact itself is asked for then, and says why. So is a
    Spark that is lost noticed, and said to be, by the operation that comes next.
    """
    tried: set[Asked] = set()
    for _ in range(_ROUNDS):
        new = dict.fromkeys(each for each in _asked(run, own) if each not in tried)
        tried.update(new)
        readers = [
            gevent.spawn(each.read, [one for one in new if one.connection is each])
            for each in {one.connection for one in new}
        ]
        gevent.joinall(readers)
        if not any(reader.value for reader in readers):
            return


def _asked(run: State, own: Host) -> list[Asked]:
    """Return the facts that the operations of a host ask for next."""
    part = gevent.getcurrent()
    asked = asking[part] = []
    with surveying():
        for op_hash in own.op_hash_order if planning() else run.get_op_order():
            if op_hash not in run.ops[own]:
                continue
            commands: Any = run.get_op_data_for_host(own, op_hash).command_generator()
            try:
                if next(commands, None) is not None and not planning():
                    # It changes something: what follows reads anew.
                    break
            except (AskedError, Exception):
                # It has asked for a fact; or it raises the same when it runs.
                continue
            finally:
                commands.close()
    del asking[part]
    return asked
