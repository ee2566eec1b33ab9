import { formatGpus } from "../ui/units";

const [WIDTH, HEIGHT, EDGE] = [72, 20, 2];

/** The average use of each of the last days as a line, the last day being today so far. */
export function Sparkline({ values }: { values: readonly number[] }) {
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => {
    const x = EDGE + ((WIDTH - 2 * EDGE) * at) / Math.max(1, values.length - 1);
    const y = HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * value) / most;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const rounded = values.map((value) => formatGpus(Math.round(value / 100) * 100));
  const said = `Average use by day, today last: ${rounded.join(", ")}`;
  return (
    <svg className="sparkline" role="img" aria-label={said} width={WIDTH} height={HEIGHT} viewBox={`0 0 ${String(WIDTH)} ${String(HEIGHT)}`}>
      <title>{said}</title>
      <polyline points={points.join(" ")} />
    </svg>
  );
}
