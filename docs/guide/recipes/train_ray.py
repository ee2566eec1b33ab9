"""Ray Train: the workers save at the step of the notice, and the next attempt goes on there."""

import argparse
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from torch import nn

# A folder that all nodes see. Ray Train keeps its runs there, with their checkpoints.
CHECKPOINTS = Path(os.environ["TIDEGATE_CHECKPOINT_PATH"])
# ray.sh makes this file at the notice: Ray's own processes must not get the signal.
NOTICE = CHECKPOINTS / "notice"


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


def save(step, net, optimizer):
    """Report a checkpoint to Ray Train, which counts it only once all of it is stored."""
    rank = ray.train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if rank == 0:
            state = {
                "step": step,
                "model": net.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, Path(folder, "state.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"step": step}, checkpoint=checkpoint)  # waits for all workers
    if rank == 0:
        print(f"step {step} saved", flush=True)
        report_checkpoint()


def load(net, optimizer):
    """Return the number of steps that are done."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder, "state.pt"), map_location="cpu")
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if ray.train.get_context().get_world_rank() == 0:
        print(f"step {state['step']} resumed", flush=True)
    return state["step"]


def any_worker(device, *flags):
    """Return each flag as any worker has it: they must save at the same step."""
    found = torch.tensor([int(flag) for flag in flags], device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in found]


def batch_of(step, device):
    """Return the data of this worker in a step: they follow from the numbers of both."""
    context = ray.train.get_context()
    number = step * context.get_world_size() + context.get_world_rank()
    inputs = torch.randn(256, 512, generator=torch.Generator().manual_seed(number))
    return inputs.to(device), inputs.sum(dim=1, keepdim=True).to(device)


def train(config):
    """Train on one worker."""
    rank = ray.train.get_context().get_world_rank()
    device = ray.train.torch.get_device()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1))
    model = ray.train.torch.prepare_model(net)  # wraps the same net if there are several workers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done = load(net, optimizer)
    saved_at = time.monotonic()
    for step in range(done + 1, config["steps"] + 1):
        inputs, wanted = batch_of(step, device)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        # Every few minutes as well: a node that fails gives no notice.
        is_late = time.monotonic() - saved_at >= config["save_every_s"]
        must_stop, is_due = any_worker(device, NOTICE.exists(), is_late)
        if must_stop or is_due:
            save(step, net, optimizer)
            saved_at = time.monotonic()
        if must_stop:
            return
    save(config["steps"], net, optimizer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every-s", type=float, default=600)
    arguments = parser.parse_args()
    ray.init(address="auto")
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config=vars(arguments),
        scaling_config=ray.train.ScalingConfig(
            num_workers=int(os.environ["WORLD_SIZE"]) * int(os.environ["TIDEGATE_GPUS_PER_NODE"]),
            use_gpu=torch.cuda.is_available(),
        ),
        # The same name in every attempt: Ray Train loads the newest checkpoint of that run.
        run_config=ray.train.RunConfig(
            name="run",
            storage_path=str(CHECKPOINTS),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    if result.metrics["step"] < arguments.steps:
        sys.exit(143)  # not 0: a script with `set -e` must not go on as if all were done
    print("training complete", flush=True)


if __name__ == "__main__":
    main()
