"""What the launcher says when it cannot go on."""


class LauncherError(Exception):
    """One sentence for the person at the terminal: what is wrong and what to do about it."""
