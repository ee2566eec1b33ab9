#!/usr/bin/env python3
"""Any program, here without a library: a preempted run goes on at the step where it was saved."""

import argparse
import json
import os
import random
import signal
import sys
import time
import urllib.request
from pathlib import Path

CHECKPOINT = Path(os.environ.get("TIDEGATE_CHECKPOINT_PATH", Path.home() / "train_plain.json"))
is_noticed = False


def on_notice(signum, frame):
    """Only take note: the step that runs now ends first, so that the state is whole."""
    global is_noticed
    is_noticed = True


def report_checkpoint():
    """Tell Tidegate about the save. The same as the command `tidegate checkpoint`."""
    if url := os.environ.get("TIDEGATE_CHECKPOINT_URL"):
        token = os.environ["TIDEGATE_CHECKPOINT_TOKEN"]
        request = urllib.request.Request(
            url, method="POST", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except OSError as error:  # the training goes on all the same
            print(f"checkpoint not reported: {error}", file=sys.stderr, flush=True)


def save(step, weights):
    """Replace the checkpoint in one piece: a stop in between leaves the old one."""
    part = CHECKPOINT.with_name(CHECKPOINT.name + ".part")
    with part.open("w") as file:
        json.dump({"step": step, "weights": weights}, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(CHECKPOINT)
    print(f"step {step} saved", flush=True)
    report_checkpoint()


def load():
    """Return the number of steps that are done, and the weights."""
    if not CHECKPOINT.exists():
        return 0, [0.0] * 100
    state = json.loads(CHECKPOINT.read_text())
    print(f"step {state['step']} resumed", flush=True)
    return state["step"], state["weights"]


def train_step(step, weights):
    """Take one step in place, and return its loss. Its data follow from its number."""
    source = random.Random(step)
    loss = 0.0
    for _ in range(100):
        inputs = [source.gauss(0, 1) for _ in weights]
        error = sum(weight * value for weight, value in zip(weights, inputs, strict=True)) - sum(
            inputs
        )
        loss += error * error / 100
        for place, value in enumerate(inputs):
            weights[place] -= 0.00002 * error * value
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, on_notice)
    done, weights = load()
    saved_at = time.monotonic()
    for step in range(done + 1, arguments.steps + 1):
        loss = train_step(step, weights)
        if step % 50 == 0:
            print(f"step {step} loss {loss:.6f}", flush=True)
        # Every few minutes as well: a node that fails gives no notice.
        if is_noticed or time.monotonic() - saved_at >= arguments.save_every_s:
            save(step, weights)
            saved_at = time.monotonic()
        if is_noticed:
            sys.exit(143)  # not 0: a script with `set -e` must not go on as if all were done
    save(arguments.steps, weights)
    print("training complete", flush=True)


if __name__ == "__main__":
    main()
