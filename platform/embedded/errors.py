"""The error of the launcher."""


class LauncherError(Exception):
    """The launcher cannot continue. One sentence tells the person what is wrong and what to do."""
