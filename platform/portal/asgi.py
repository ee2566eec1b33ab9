"""Entry point of the web process; it exits, with the reason, where it must not serve."""

from __future__ import annotations

import os

from portal.routing import build_application
from portal.startup import refuse_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

application = build_application()
refuse_or_exit()
