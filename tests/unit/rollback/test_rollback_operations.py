"""The way back, on fake hosts."""

from collections.abc import Mapping
from typing import Any

from sparkwright.rollback.operations import rollback
from tests.unit.driven import Driven
from tests.unit.engine.test_switch_operations import SETTINGS, SETTLED, changes, spark


class TestRollback:
    """The way back."""

    @staticmethod
    def run(history: str, report: Mapping[str, object] | None = None) -> tuple[Any, Driven]:
        driven = spark(SETTLED, report, size=1, history=history)
        arguments = {"root": "/opt/x", "recipe": "try", "settings": SETTINGS, "peer": None}
        return driven.run(rollback, **arguments), driven

    HISTORY = "@@history\nold\nnew\n@@current\nreleases/new\n@@releases\nold\nnew\n@@switches"

    def test_the_release_before_serves(self) -> None:
        result, driven = self.run(self.HISTORY)
        assert result.did_succeed()
        assert changes(driven)[-1].endswith("systemctl start switch@old.service")

    def test_nothing_to_go_back_to(self) -> None:
        result, driven = self.run(self.HISTORY.replace("@@history\nold", "@@history"))
        assert not result.did_succeed()
        assert "There is nothing to go back to on a" in driven.scripts()[-1]

    def test_one_that_does_not_serve(self) -> None:
        report = {"phase": "failed", "message": "the weights are gone", "restored": True}
        result, driven = self.run(self.HISTORY, report)
        assert not result.did_succeed()
        assert "old does not serve: the weights are gone" in driven.scripts()[-1]
