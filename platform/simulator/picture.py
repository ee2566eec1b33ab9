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
@media(max-width:40rem){body{margin:1rem}}
h1{font-size:1.5rem;overflow-wrap:anywhere} p{margin:.25rem 0}
.wide{overflow-x:auto;margin-top:1.5rem}
h2{font-size:1rem;margin:1.5rem 0 .25rem}
figure{margin:0;display:grid;grid-template-columns:auto 1fr auto;gap:0 .5rem;font-size:12px}
svg{display:block;width:100%;height:7.5rem}
.axis{display:flex;flex-direction:column;justify-content:space-between;text-align:right}
.time{grid-column:2;display:flex;justify-content:space-between}
.left{color:#2f6f9f}.right{color:#b4532a;text-align:left}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.15rem .75rem;text-align:right;border-bottom:1px solid #d8dee4}
td:first-child,th:first-child{text-align:left;white-space:pre}
.use{fill:#a9cde8}.frame{fill:#f6f8fa}
.wait{fill:none;stroke:#b4532a;stroke-width:1.5;vector-effect:non-scaling-stroke}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}.frame{fill:#161b22}
td,th{border-color:#30363d}.left{color:#6cb0e0}.right{color:#e08a5f}.use{fill:#26577d}
.wait{stroke:#e08a5f}}
"""


def page(results: Sequence[Result], scene: Scene, *, title: str) -> str:
    """Return a page of GPUs in use (area) and GPUs requested by waiting jobs (line), by policy.

    All policies share the same scales, so that they can be compared.
    """
    capacity = max(1, scene.capacity_mgpu)
    horizons = [max(1, one.outcome.horizon_s) for one in results]
    curves = [
        averages(one.outcome.observer.series, horizon, _POINTS)
        for one, horizon in zip(results, horizons, strict=True)
    ]
    peak = max((max(wait) for _, wait in curves), default=0)
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        "<p><span class=left>Area, on the left: GPUs in use</span>, up to all that there are."
        " <span class=right>Line, on the right: GPUs that waiting jobs ask for</span>, up to the"
        " most under any policy.</p>",
    ]
    for one, horizon, (use, wait) in zip(results, horizons, curves, strict=True):
        parts += _curves(one.policy, use, wait, capacity, max(1, peak), horizon)
    head = "".join(f"<th scope=col>{escape(one.policy)}</th>" for one in results)
    parts.append(f"<div class=wide><table><tr><th></th>{head}</tr>")
    for name, *cells in table(results):
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        parts.append(f"<tr><td>{escape(name)}</td>{row}</tr>")
    parts.append("</table></div></html>")
    return "\n".join(parts) + "\n"


def _curves(
    policy: str, use: Sequence[int], wait: Sequence[int], capacity: int, peak: int, horizon: int
) -> list[str]:
    step = _WIDTH / (_POINTS - 1)

    def points(values: Sequence[int], top: int) -> str:
        return " ".join(
            f"{i * step:.1f},{_HEIGHT - _HEIGHT * value / top:.1f}"
            for i, value in enumerate(values)
        )

    unit, name = (86_400, "days") if horizon >= 86_400 else (3_600, "hours")
    words = (
        f"{policy}: of {_gpus(capacity)} GPUs {_gpus(max(use))} at most in use; "
        f"{_gpus(max(wait))} at most asked for by waiting jobs; {horizon / unit:.1f} {name}"
    )
    times = "".join(
        f"<span>{horizon * part / 4 / unit:.1f}{f' {name}' if part == 4 else ''}</span>"
        for part in range(5)
    )
    return [
        f"<h2>{escape(policy)}</h2><figure>",
        f'<div class="axis left"><span>{_gpus(capacity)}</span><span>0</span></div>',
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(words)}">',
        f'<rect class="frame" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<polygon class="use" points="0,{_HEIGHT} {points(use, capacity)} {_WIDTH},{_HEIGHT}"/>',
        f'<polyline class="wait" points="{points(wait, peak)}"/></svg>',
        f'<div class="axis right"><span>{_gpus(peak)}</span><span>0</span></div>',
        f'<div class="time">{times}</div></figure>',
    ]


def _gpus(mgpu: int) -> str:
    return f"{mgpu / 1_000:,.0f}"


def averages(
    series: Sequence[tuple[int, int, int]], horizon: int, count: int
) -> tuple[list[int], list[int]]:
    """Return the means of use and of waiting demand over `count` parts of the time up to `horizon`.

    Parts begin at whole seconds. A part shorter than a second repeats the value of the part before
    it.
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
