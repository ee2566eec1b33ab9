"""Finds the Chromium of this machine, or installs it when we are root and apt is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIMEOUT_S = 900


def main() -> int:
    """0 when there is a Chromium in the end; 1 after a sentence that says what to install."""
    if os.environ.get("TIDEGATE_CHROMIUM") or any(shutil.which(name) for name in NAMES):
        return 0
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        print("Chromium is missing: installing it with apt-get", flush=True)
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            done = subprocess.run(
                [apt, "-qq", *words],
                env=quiet,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                break
        if shutil.which("chromium"):
            return 0
    print(
        "Tidegate: the browser tests need Chromium: install it (Debian: `apt install chromium`), "
        "or name it in TIDEGATE_CHROMIUM.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
