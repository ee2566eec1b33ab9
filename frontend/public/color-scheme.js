// Runs before the first paint. Reads the choice that the theme menu stores ("light", "dark" or "auto").
(function () {
  var choice = "auto";
  try {
    choice = window.localStorage.getItem("mantine-color-scheme-value") || "auto";
  } catch (e) {
    // Storage may be forbidden; then the system's scheme decides.
  }
  var dark =
    choice === "dark" ||
    (choice !== "light" && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
