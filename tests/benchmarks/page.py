"""The figures of the last `make bench` in docs/performance.md, between its marks."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.benchmarks.no_op import LOGIN, OURS, TRIP
from tests.benchmarks.tools import FIGURES
from tests.driver.product import PROJECT

PAGE = PROJECT / "docs/performance.md"
_BEGIN, _END = "<!-- {}: by make bench -->", "<!-- end of {} -->"
Figures = Mapping[str, Any]


def write_page(figures: Figures) -> None:
    """Put figures into the page; the rest of it stays."""
    for name, section in _SECTIONS.items():
        if name in figures:
            made = section(figures[name])
            print(f"\n{made}")
            PAGE.write_text(filled(PAGE.read_text(), name, made))


def filled(page: str, name: str, text: str) -> str:
    begin, end = _BEGIN.format(name), _END.format(name)
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"found no {begin} and {end}; expected both, in this order")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def no_op_section(figures: Figures) -> str:
    machine = [f"* {name}: {value}" for name, value in figures["machine"].items()]
    count = f"The playbook has {figures['tasks']} tasks, of {figures['items']} items."
    parts = [*machine, "", f"{count} Medians of {figures['rounds']} rounds, all taken in turn."]
    for title, table in figures["tables"].items():
        parts += ["", *no_op_table(title, table, figures["aims"])]
    near, far = figures["tables"].values()
    trips = {each: (far[each]["seconds"] - near[each]["seconds"]) / TRIP for each in (LOGIN, OURS)}
    parts += [
        "",
        f"By the difference of the two tables, a login takes {trips[LOGIN]:.0f} round trips, and a "
        f"run of ours {trips[OURS]:.0f}, its login among them.",
    ]
    return "\n".join(parts)


def no_op_table(title: str, table: Figures, aims: Mapping[str, int]) -> list[str]:
    rows = [
        f"| {title} | seconds | CPU seconds | x a login | x ours | aim |",
        "|---|---|---|---|---|---|",
    ]
    for name, cost in table.items():
        seconds = cost["seconds"]
        login, own = (seconds / table[base]["seconds"] for base in (LOGIN, OURS))
        aim = aims.get(name, "")
        rows.append(
            f"| {name} | {seconds:.2f} | {cost['cpu']:.2f} | {login:.1f} | {own:.1f} | {aim} |"
        )
    return rows


def fleet_section(figures: Figures) -> str:
    sizes = {int(size): cost for size, cost in figures.items()}
    rows = ["| Sparks | CPU seconds | MiB | elapsed seconds |", "|---|---|---|---|"]
    rows += [
        f"| {size} | {cost['cpu']:.1f} | {cost['memory'] / 2**20:.0f} | {cost['seconds']:.1f} |"
        for size, cost in sizes.items()
    ]
    least, most = min(sizes), max(sizes)
    if least < most:
        each = (sizes[most]["cpu"] - sizes[least]["cpu"]) / (most - least)
        rows += ["", f"Each further Spark takes {each:.2f} CPU seconds."]
    return "\n".join(rows)


_SECTIONS: dict[str, Callable[[Figures], str]] = {"no-op": no_op_section, "fleet": fleet_section}


def last_figures() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(FIGURES.glob("*.json"))}
