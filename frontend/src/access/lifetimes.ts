/** Lifetimes of new tokens in days, and of replaced ones in seconds. */
export const LIFETIMES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "one year" },
];

export const OVERLAPS = [
  { value: "0", label: "at once" },
  { value: "3600", label: "in 1 hour" },
  { value: "86400", label: "in 1 day" },
  { value: "604800", label: "in 7 days" },
];
