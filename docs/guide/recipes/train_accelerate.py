"""Accelerate, on any number of ranks: `save_state` at the step of the notice."""

import argparse
import os
import shutil
import signal
import sys
import time
import urllib.request
from pathlib import Path

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# A folder that all nodes see, with one folder for each checkpoint.
CHECKPOINTS = Path(os.environ["TIDEGATE_CHECKPOINT_PATH"])
is_noticed = False


def on_notice(signum, frame):
    """Only take note: the ranks agree on the step at which all of them save."""
    global is_noticed
    is_noticed = True


class Progress:
    """The number of steps that are done. Accelerate saves it with the rest."""

    def __init__(self):
        self.step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
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


def save(accelerator, progress):
    """Save on all ranks, then give the folder its name: what has the name is whole."""
    final = CHECKPOINTS / f"step-{progress.step}"
    part = CHECKPOINTS / f"step-{progress.step}.part"
    if accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)  # of an attempt that was killed
    accelerator.wait_for_everyone()
    accelerator.save_state(str(part))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        if not final.exists():
            part.rename(final)
        print(f"step {progress.step} saved", flush=True)
        for old in complete_checkpoints()[:-2]:
            shutil.rmtree(old)
        report_checkpoint()


def any_rank(accelerator, *flags):
    """Return each flag as any rank has it: a notice reaches the ranks at different moments."""
    found = torch.tensor([int(flag) for flag in flags], device=accelerator.device)
    return [bool(flag) for flag in accelerator.reduce(found, reduction="sum")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, on_notice)
    set_seed(0)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        # The order of the data follows from the seed and the epoch, so it is the same again.
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    inputs = torch.randn(64 * 256, 512)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=256, shuffle=True)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if found := complete_checkpoints():
        accelerator.load_state(str(found[-1]))
        accelerator.print(f"step {progress.step} resumed", flush=True)
    saved_at = time.monotonic()
    while progress.step < arguments.steps:
        epoch, done = divmod(progress.step, len(loader))
        loader.set_epoch(epoch)
        for inputs, wanted in skip_first_batches(loader, done):
            loss = nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            progress.step += 1
            if progress.step % 50 == 0:
                accelerator.print(f"step {progress.step} loss {loss.item():.6f}", flush=True)
            # Every few minutes as well: a node that fails gives no notice.
            is_late = time.monotonic() - saved_at >= arguments.save_every_s
            must_stop, is_due = any_rank(accelerator, is_noticed, is_late)
            if must_stop or is_due:
                save(accelerator, progress)
                saved_at = time.monotonic()
            if must_stop:
                accelerator.end_training()
                sys.exit(143)
            if progress.step == arguments.steps:
                break
    save(accelerator, progress)
    accelerator.print("training complete", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
