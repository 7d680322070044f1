"""The comparison of D-CWR's readings (`python -m mammoth.readings compare`) as a table in Markdown."""

import json
from pathlib import Path
from typing import Any

from mammoth.report.stats import t_interval
from mammoth.report.tables import format_interval, markdown_line


def markdown(path: Path) -> str:
    """Return a line for each reading: ACC, FR, and what it changes on the same network beside the network's own head.

    Raises:
        ValueError: the file is missing or no comparison; names it.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        readings: dict[str, dict[str, list[float]]] = content["readings"]
        own = next(iter(readings.values()))
        lines = ["| predicting with | ACC | FR | change of ACC | change of FR |", "|---|---|---|---|---|"]
        for name, found in readings.items():
            cells = [format_interval(t_interval(found[measure])) for measure in ("ACC", "FR")]
            changes = [
                "–" if found is own else format_interval(t_interval([a - b for a, b in zip(found[m], own[m], strict=True)]))
                for m in ("ACC", "FR")
            ]
            lines.append(markdown_line([name, *cells, *changes]))
        return "\n".join([*lines, "", _footer(content)])
    except (OSError, json.JSONDecodeError, KeyError, TypeError, StopIteration) as error:
        how = f"python -m mammoth.readings compare FILES --output {path} writes one"
        raise ValueError(f"{path} is no comparison of readings ({error}); {how}") from error


def _footer(content: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items() if name in ("torch", "python"))
    seeds = ", ".join(map(str, content["seeds"]))
    return (
        "Mean ± half-width of the 95 % t-interval over networks (n in brackets), changes paired by network; "
        f"seeds {seeds}; {versions}; networks of commit {', '.join(content['commits'])}, compared by {content['compared_by']}; "
        f"data: {', '.join(content['data'])}."
    )
