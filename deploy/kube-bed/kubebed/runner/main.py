"""The runner: `python -m kubebed.runner.main FOLDER`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time

from kubebed.api import Api
from kubebed.runner.log_server import LogServer
from kubebed.runner.pods import Pods
from kubebed.runner.runtime_client import RuntimeClient, RuntimeGone
from kubebed.runner.watching import follow_pods
from kubebed.settings import read_settings

_PAUSE_S = 0.2
log = logging.getLogger(__name__)


def main() -> None:
    """Serve until a signal ends the process; the Pods go on."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = read_settings({"TIDEGATE_KUBE_BED": sys.argv[1]})
    os.chdir(settings.folder)
    api = Api(settings, "runner")
    pods = Pods(settings, api)
    connected = threading.Event()
    threading.Thread(target=_keep_runtime, args=(pods, connected), daemon=True).start()
    # Before it is known what runs, a Pod that runs would be taken for one that is lost.
    connected.wait()
    pods.work()
    threading.Thread(target=follow_pods, args=(api, pods), daemon=True).start()
    LogServer(settings, pods).serve_forever()


def _keep_runtime(pods: Pods, connected: threading.Event) -> None:
    while True:
        gone = threading.Event()
        try:
            pods.use_runtime(RuntimeClient(pods.ended, gone.set))
        except (OSError, RuntimeGone) as error:
            # One that is ending may take a connection and never answer.
            log.warning("the runtime does not answer: %s", error)
            time.sleep(_PAUSE_S)
            continue
        connected.set()
        gone.wait()
        pods.runtime_gone()


if __name__ == "__main__":
    main()
