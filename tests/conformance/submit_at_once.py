"""Run as a script: submit one workload at the moment a file appears, from a process of its own.

Arguments: kind, options as JSON, id of the cluster, key, script, what else to ask for as JSON,
file to wait for. Prints the cluster's id.
"""

import json
import sys
import time
from pathlib import Path

from builders.connector_builders import a_workload
from connectors.registry import open_connector

if __name__ == "__main__":
    kind, options, cluster_id, key, script, asked, go = sys.argv[1:]
    connector = open_connector(kind, json.loads(options), cluster_id)
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.0005)
    print(connector.submit(a_workload(script, key=key, **json.loads(asked))))
