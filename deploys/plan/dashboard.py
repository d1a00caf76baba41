"""Grafana's dashboard of a fleet: engines, doors, hosts."""

import json
from typing import Any

from deploys.plan.panels import SECTIONS, Panel

# Width of a dashboard, and of a third of it; height of a panel.
_WIDTH, _THIRD, _HEIGHT = 24, 8, 8


def dashboard() -> str:
    """Return the dashboard as JSON, as Grafana imports it (schema 39: Grafana 10.4 and later)."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, section in SECTIONS.items():
        panels.append(_place({"type": "row", "title": title, "panels": []}, 0, top, _WIDTH, 1))
        top += 1
        for number, panel in enumerate(section):
            left, down = number * _THIRD % _WIDTH, number * _THIRD // _WIDTH * _HEIGHT
            panels.append(_place(_graph(panel), left, top + down, _THIRD, _HEIGHT))
        top += -(-len(section) * _THIRD // _WIDTH) * _HEIGHT
    for number, each in enumerate(panels, 1):
        each["id"] = number
    return json.dumps(
        {
            "uid": "sparkwright",
            "title": "Sparkwright",
            "schemaVersion": 39,
            "editable": True,
            "refresh": "15s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": _variables()},
            "panels": panels,
        },
        indent=2,
    )


def _place(panel: dict[str, Any], left: int, top: int, width: int, height: int) -> dict[str, Any]:
    return panel | {"gridPos": {"x": left, "y": top, "w": width, "h": height}}


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _graph(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for number, (legend, query) in enumerate(panel.queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    def choice(name: str, query: str) -> dict[str, Any]:
        return {
            "name": name,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }

    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        choice("replica", 'label_values(up{job="door"}, replica)'),
        choice("spark", "label_values(spark_memory_total_bytes, spark)"),
    ]
