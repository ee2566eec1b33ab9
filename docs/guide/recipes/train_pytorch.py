"""Plain PyTorch, one process: a preempted training goes on at the step where it was saved."""

import argparse
import os
import random
import signal
import sys
import time
import urllib.request
from pathlib import Path

import torch
from torch import nn

CHECKPOINT = Path(os.environ["TIDEGATE_CHECKPOINT_PATH"])
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
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


def save(step, model, optimizer):
    """Replace the checkpoint in one piece: a stop in between leaves the old one."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": (random.getstate(), torch.get_rng_state()),
        "cuda": torch.cuda.get_rng_state_all() if DEVICE == "cuda" else [],
    }
    part = CHECKPOINT.with_name(CHECKPOINT.name + ".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(CHECKPOINT)
    print(f"step {step} saved", flush=True)
    report_checkpoint()


def load(model, optimizer):
    """Return the number of steps that are done."""
    if not CHECKPOINT.exists():
        return 0
    # Your own file: with weights_only, the state of `random` would be refused.
    state = torch.load(CHECKPOINT, map_location=DEVICE, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    random.setstate(state["random"][0])
    torch.set_rng_state(state["random"][1].cpu())
    if state["cuda"]:
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])
    print(f"step {state['step']} resumed", flush=True)
    return state["step"]


def batch_of(step):
    """Return the data of a step. They follow from its number, so none is seen twice or left out."""
    source = torch.Generator().manual_seed(step)
    inputs = torch.randn(256, 512, generator=source)
    return inputs.to(DEVICE), inputs.sum(dim=1, keepdim=True).to(DEVICE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, on_notice)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done = load(model, optimizer)
    saved_at = time.monotonic()
    for step in range(done + 1, arguments.steps + 1):
        inputs, wanted = batch_of(step)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        # Every few minutes as well: a node that fails gives no notice.
        if is_noticed or time.monotonic() - saved_at >= arguments.save_every_s:
            save(step, model, optimizer)
            saved_at = time.monotonic()
        if is_noticed:
            sys.exit(143)  # not 0: a script with `set -e` must not go on as if all were done
    save(arguments.steps, model, optimizer)
    print("training complete", flush=True)


if __name__ == "__main__":
    main()
