import type { Cluster } from "../api/types";

export interface ImageAdvice {
  /** Wherever the job may run, it must name an image. */
  isNeeded: boolean;
  placeholder: string;
  description: string;
}

const FORM = "Such as nvcr.io#nvidia/pytorch:24.05-py3";

/** What to say beside the field for the image, of a job in `pool` that may run on `chosen`, or on any cluster. */
export function imageAdvice(clusters: readonly Cluster[], pool: string | undefined, chosen: string | null): ImageAdvice {
  const having = clusters.filter(
    ({ name, is_enabled: isEnabled, pools, default_images: images }) =>
      isEnabled &&
      (chosen === null || name === chosen) && [...pools, ...images].some((each) => each.pool === pool),
  );
  const defaults = having.flatMap(({ name, default_images: images }) =>
    images.filter((each) => each.pool === pool).map(({ image }) => ({ name, image })),
  );
  const lacking = defaults.filter(({ image }) => image === null).map(({ name }) => name);
  const isNeeded = having.length > 0 && lacking.length === having.length;
  const own = new Set(defaults.flatMap(({ image }) => image ?? []));
  const [only] = own;
  const isOwnAlone = defaults.length > 0 && own.size === 1 && lacking.length === 0;
  const words = defaults.map(({ name, image }) =>
    image === null ? `on ${name} a job must name one` : `on ${name} it is ${image}`,
  );
  return {
    isNeeded,
    placeholder: isOwnAlone && defaults.length === having.length && only ? only : isNeeded ? "" : "none",
    description: isNeeded
      ? `${FORM}. ${lacking.join(" and ")} ${lacking.length === 1 ? "runs" : "run"} every job in an image, so name one.`
      : words.length === 0
        ? `${FORM}, or the path of a .sqsh file. Runs on clusters that run images.`
        : `${FORM}. Without one: ${words.join("; ")}.`,
  };
}
