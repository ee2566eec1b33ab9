"""torchrun with sharded checkpoints (DCP): each rank saves its shards, on any number of nodes."""

import argparse
import os
import shutil
import signal
import sys
import time
import urllib.request
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard

# A folder that all nodes see, with one folder for each checkpoint.
CHECKPOINTS = Path(os.environ["TIDEGATE_CHECKPOINT_PATH"])
is_noticed = False


def on_notice(signum, frame):
    """Only take note: the ranks agree on the step at which all of them save."""
    global is_noticed
    is_noticed = True


class Training(Stateful):
    """State of model and optimizer. DCP loads it with another number of ranks, too."""

    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.step = 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = state["step"]


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


def complete_checkpoints():
    """Return the folders of whole checkpoints, the oldest first."""
    return sorted(CHECKPOINTS.glob("step-*[0-9]"), key=lambda path: int(path.name[5:]))


def save(training):
    """Write all shards, then give the folder its name: what has the name is whole."""
    final = CHECKPOINTS / f"step-{training.step}"
    part = CHECKPOINTS / f"step-{training.step}.part"
    if dist.get_rank() == 0:
        shutil.rmtree(part, ignore_errors=True)  # of an attempt that was killed
    dist.barrier()
    dcp.save({"training": training}, checkpoint_id=part)
    dist.barrier()
    if dist.get_rank() == 0:
        if not final.exists():
            part.rename(final)
        print(f"step {training.step} saved", flush=True)
        for old in complete_checkpoints()[:-2]:
            shutil.rmtree(old)
        report_checkpoint()


def load(training):
    """Load the newest whole checkpoint, if there is one."""
    if found := complete_checkpoints():
        dcp.load({"training": training}, checkpoint_id=found[-1])
        if dist.get_rank() == 0:
            print(f"step {training.step} resumed on {dist.get_world_size()} ranks", flush=True)


def any_rank(*flags):
    """Return each flag as any rank has it: a notice reaches the ranks at different moments."""
    found = torch.tensor([int(flag) for flag in flags])
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in found]


def batch_of(step, device):
    """Return the data of this rank in a step: they follow from the numbers of both."""
    source = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(256, 512, generator=source)
    return inputs.to(device), inputs.sum(dim=1, keepdim=True).to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, on_notice)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1)).to(device)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    training = Training(model, optimizer)
    load(training)
    saved_at = time.monotonic()
    while training.step < arguments.steps:
        inputs, wanted = batch_of(training.step + 1, device)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.step += 1
        if training.step % 50 == 0 and dist.get_rank() == 0:
            print(f"step {training.step} loss {loss.item():.6f}", flush=True)
        # Every few minutes as well: a node that fails gives no notice.
        is_late = time.monotonic() - saved_at >= arguments.save_every_s
        must_stop, is_due = any_rank(is_noticed, is_late)
        if must_stop or is_due:
            save(training)
            saved_at = time.monotonic()
        if must_stop:
            dist.destroy_process_group()
            sys.exit(143)
    save(training)
    if dist.get_rank() == 0:
        print("training complete", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
