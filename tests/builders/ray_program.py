#!/usr/bin/env python3
"""A stand-in for the program `ray`, for the Pods that KubeRay makes on the bed.

Real are the commands that KubeRay writes (`ray start`, `ray job status|submit|logs`), and the REST
API of jobs by which it watches. There is no Ray behind it: the head runs the entrypoint itself. The
bed has no names of Services, so heads write their addresses into the folder `RAY_HEADS`.
"""

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 8265
PAUSE_S = 0.1
WAIT_S = 60
HEADS = Path(os.environ["RAY_HEADS"])
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
JOBS = {}


def state_of(name):
    """Return the answer of the REST API about a job."""
    entrypoint, process, _ = JOBS[name]
    code = process.poll()
    status = "RUNNING" if code is None else "SUCCEEDED" if code == 0 else "FAILED"
    return {"submission_id": name, "entrypoint": entrypoint, "status": status, "type": "SUBMISSION"}


class Dashboard(BaseHTTPRequestHandler):
    """The part of Ray's dashboard that KubeRay and `ray job` use."""

    def do_GET(self):
        name, _, part = self.path.removeprefix("/api/jobs/").partition("/")
        if name not in JOBS:
            self.answer({"error": "no such job"}, 404)
        elif part == "logs":
            self.answer({"logs": Path(JOBS[name][2]).read_text()})
        else:
            self.answer(state_of(name))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("/stop"):
            JOBS[self.path.split("/")[-2]][1].terminate()
            self.answer({"stopped": True})
            return
        asked = json.loads(body)
        name, output = asked["submission_id"], HEADS / f"{asked['submission_id']}.log"
        with output.open("w") as file:
            process = subprocess.Popen(asked["entrypoint"], shell=True, stdout=file, stderr=file)
        JOBS[name] = (asked["entrypoint"], process, str(output))
        self.answer({"submission_id": name, "job_id": name})

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *unused):
        """Keep the log of the Pod for what it says itself."""


def ask(address, path, body=None):
    """Ask the dashboard of the head behind the Service at `address`."""
    host = address.removeprefix("http://").partition("-head-svc")[0]
    deadline = time.monotonic() + WAIT_S
    while not (HEADS / host).exists():
        if time.monotonic() > deadline:
            sys.exit(f"no head {host}")
        time.sleep(PAUSE_S)
    url = f"http://{(HEADS / host).read_text()}:{PORT}/api/jobs/{path}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, data, timeout=10) as answer:
        return json.load(answer)


def start(arguments):
    if "--head" in arguments:
        server = ThreadingHTTPServer((os.environ["POD_IP"], PORT), Dashboard)
        (HEADS / os.environ["RAY_CLUSTER_NAME"]).write_text(os.environ["POD_IP"])
        print("head", flush=True)
        server.serve_forever()
    print("worker", flush=True)
    while True:
        time.sleep(WAIT_S)


def job(what, arguments):
    address = arguments[arguments.index("--address") + 1]
    if what == "submit":
        name = arguments[arguments.index("--submission-id") + 1]
        entrypoint = shlex.join(arguments[arguments.index("--") + 1 :])
        ask(address, "", {"submission_id": name, "entrypoint": entrypoint})
        return
    name = arguments[-1]
    if what == "status":
        try:
            print(ask(address, name)["status"])
        except urllib.error.HTTPError:
            sys.exit(1)
        return
    while (state := ask(address, name)["status"]) not in OVER:
        time.sleep(PAUSE_S)
    print(ask(address, f"{name}/logs")["logs"], end="", flush=True)
    sys.exit(state != "SUCCEEDED")


if __name__ == "__main__":
    if sys.argv[1] == "start":
        start(sys.argv[2:])
    job(sys.argv[2], sys.argv[3:])
