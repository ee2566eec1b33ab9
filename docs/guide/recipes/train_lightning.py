"""Lightning, on any number of ranks: a callback saves at the step of the notice."""

import argparse
import itertools
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

# A file in a folder that all nodes see.
CHECKPOINT = Path(os.environ["TIDEGATE_CHECKPOINT_PATH"])


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


class SaveAtNotice(Callback):
    """Save at the notice and end, and save every few minutes: a failed node gives no notice."""

    def __init__(self, every_s):
        self.every_s = every_s
        self.is_noticed = False
        self.saved_at = time.monotonic()

    def on_train_start(self, trainer, module):
        # In place of Lightning's own handler, which ends the fit without a checkpoint.
        signal.signal(signal.SIGTERM, self.on_notice)
        if trainer.global_step and trainer.is_global_zero:
            print(f"step {trainer.global_step} resumed", flush=True)

    def on_notice(self, signum, frame):
        self.is_noticed = True

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 50 == 0 and trainer.is_global_zero:
            print(f"step {trainer.global_step} loss {outputs['loss'].item():.6f}", flush=True)
        # The ranks agree: a notice reaches them at different moments.
        is_late = time.monotonic() - self.saved_at >= self.every_s
        must_stop = trainer.strategy.reduce_boolean_decision(self.is_noticed, all=False)
        if must_stop or trainer.strategy.reduce_boolean_decision(is_late, all=False):
            self.save(trainer)
        if must_stop:
            sys.exit(143)  # not 0: a script with `set -e` must not go on as if all were done

    def on_train_end(self, trainer, module):
        self.save(trainer)

    def save(self, trainer):
        """Replace the checkpoint in one piece: a stop in between leaves the old one."""
        part = CHECKPOINT.with_name(CHECKPOINT.name + ".part")
        trainer.save_checkpoint(part)  # on every rank: it may gather what the ranks hold
        if trainer.is_global_zero:
            part.replace(CHECKPOINT)
            print(f"step {trainer.global_step} saved", flush=True)
            report_checkpoint()
        self.saved_at = time.monotonic()


class Batches(IterableDataset):
    """The data of a rank from a step on: they follow from the numbers of both."""

    def __init__(self, first_step, rank, ranks):
        self.first_step, self.rank, self.ranks = first_step, rank, ranks

    def __iter__(self):
        for step in itertools.count(self.first_step):
            source = torch.Generator().manual_seed(step * self.ranks + self.rank)
            inputs = torch.randn(256, 512, generator=source)
            yield inputs, inputs.sum(dim=1, keepdim=True)


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1))

    def training_step(self, batch, batch_idx):
        inputs, wanted = batch
        return nn.functional.mse_loss(self.net(inputs), wanted)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        # Lightning has loaded the checkpoint here, so the data go on at its step.
        trainer = self.trainer
        batches = Batches(trainer.global_step + 1, trainer.global_rank, trainer.world_size)
        return DataLoader(batches, batch_size=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        max_steps=arguments.steps,
        num_nodes=int(os.environ["NNODES"]),
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),  # torchrun starts the processes
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        callbacks=[SaveAtNotice(arguments.save_every_s)],
        enable_checkpointing=False,  # the callback does it
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(Regression(), ckpt_path=CHECKPOINT if CHECKPOINT.exists() else None)
    if trainer.is_global_zero:
        print("training complete", flush=True)


if __name__ == "__main__":
    main()
