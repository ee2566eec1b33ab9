"""The comparison as one HTML page that needs nothing else: curves and the table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from simulator.comparison import Result
from simulator.report import table
from simulator.scene import Scene

_WIDTH, _HEIGHT, _POINTS = 960, 120, 240
_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:72rem;color:#1b1f24;background:#fff}
h2{font-size:1rem;margin:1.5rem 0 .25rem} figure{margin:0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.15rem .75rem;text-align:right;border-bottom:1px solid #d8dee4}
td:first-child,th:first-child{text-align:left;white-space:pre}
.use{fill:#2f6f9f}.wait{fill:none;stroke:#b4532a;stroke-width:1.5}.frame{fill:#f6f8fa}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}.frame{fill:#161b22}
td,th{border-color:#30363d}}
"""


def page(results: Sequence[Result], scene: Scene, *, title: str) -> str:
    """GPUs in use (area) and asked for in vain (line, on its own scale) over time, by policy."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
    ]
    for one in results:
        parts += _curves(one, scene.capacity_mgpu)
    head = "".join(f"<th scope=col>{escape(one.policy)}</th>" for one in results)
    parts.append(f"<table><tr><th></th>{head}</tr>")
    for name, *cells in table(results):
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        parts.append(f"<tr><td>{escape(name)}</td>{row}</tr>")
    parts.append("</table></html>")
    return "\n".join(parts) + "\n"


def _curves(one: Result, capacity: int) -> list[str]:
    horizon = max(1, one.outcome.horizon_s)
    use, wait = averages(one.outcome.observer.series, horizon, _POINTS)
    peak = max(1, *wait)
    top = max(1, capacity)
    step = _WIDTH / _POINTS
    area = " ".join(f"{i * step:.1f},{_HEIGHT - _HEIGHT * v / top:.1f}" for i, v in enumerate(use))
    line = " ".join(
        f"{i * step:.1f},{_HEIGHT - _HEIGHT * v / peak:.1f}" for i, v in enumerate(wait)
    )
    span = f"{horizon / 86400:.1f} days" if horizon >= 86400 else f"{horizon / 3600:.1f} hours"
    words = (
        f"{one.policy}: of {capacity / 1000:,.0f} GPUs in use (area); "
        f"asked for by waiting jobs (line, up to {peak / 1000:,.0f}); {span}"
    )
    return [
        f"<h2>{escape(words)}</h2><figure>",
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img"'
        f' aria-label="{escape(words)}">',
        f'<rect class="frame" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<polygon class="use" points="0,{_HEIGHT} {area} {(_POINTS - 1) * step:.1f},{_HEIGHT}"/>',
        f'<polyline class="wait" points="{line}"/></svg></figure>',
    ]


def averages(
    series: Sequence[tuple[int, int, int]], horizon: int, count: int
) -> tuple[list[int], list[int]]:
    """Means of use and of waiting over `count` parts of the time up to `horizon`, of whole seconds.

    A part that is shorter than a second says again what the one before it does.
    """
    use, wait = [0] * count, [0] * count
    ends = [*(at for at, _, _ in series[1:]), horizon]
    for (at, in_use, asked), end in zip(series, ends, strict=False):
        end = min(end, horizon)
        while at < end:
            part = min(count - 1, at * count // horizon)
            until = min(end, max(at + 1, -(-(part + 1) * horizon // count)))
            use[part] += in_use * (until - at)
            wait[part] += asked * (until - at)
            at = until
    bounds = [-(-part * horizon // count) for part in range(count + 1)]
    for part in range(count):
        length_s = bounds[part + 1] - bounds[part]
        for sums in (use, wait):
            sums[part] = sums[part] // length_s if length_s else sums[part - 1]
    return use, wait
