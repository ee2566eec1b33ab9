import { Select } from "@mantine/core";
import { useId } from "react";

/** Paths in their order, moved with buttons so that a keyboard is enough. */
export function RankField({
  label,
  description,
  error,
  paths,
  ranked,
  onChange,
}: {
  label: string;
  description: string;
  error: string | undefined;
  paths: readonly string[];
  ranked: readonly string[];
  onChange: (ranked: readonly string[]) => void;
}) {
  const id = useId();
  const move = (from: number, by: number) => {
    const next = [...ranked];
    const [moved] = next.splice(from, 1);
    if (moved !== undefined) next.splice(from + by, 0, moved);
    onChange(next);
  };
  return (
    <div className="stack tight-rank" role="group" aria-labelledby={id}>
      <div>
        <div id={id} className="label">
          {label}
        </div>
        <div className="small dim">{description}</div>
      </div>
      {ranked.length > 0 && (
        <ol className="ranks">
          {ranked.map((path, place) => (
            <li key={path}>
              <span className="spread">
                <span>{path}</span>
                <span className="inline">
                  <button
                    type="button"
                    className="plain link small"
                    disabled={place === 0}
                    aria-label={`${path}: earlier`}
                    onClick={() => move(place, -1)}
                  >
                    ▲
                  </button>
                  <button
                    type="button"
                    className="plain link small"
                    disabled={place === ranked.length - 1}
                    aria-label={`${path}: later`}
                    onClick={() => move(place, 1)}
                  >
                    ▼
                  </button>
                  <button
                    type="button"
                    className="plain link small"
                    aria-label={`${path}: remove from the ranks`}
                    onClick={() => onChange(ranked.filter((each) => each !== path))}
                  >
                    remove
                  </button>
                </span>
              </span>
            </li>
          ))}
        </ol>
      )}
      <Select
        aria-label={`${label}: add a node`}
        placeholder={ranked.length === 0 ? "No ranked nodes; add one" : "add a node"}
        searchable
        limit={100}
        value={null}
        error={error}
        data={paths.filter((path) => !ranked.includes(path))}
        onChange={(path) => path && onChange([...ranked, path])}
      />
    </div>
  );
}
