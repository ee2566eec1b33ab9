#!/bin/bash
# Starts a training on each node of a job: torchrun.sh FILE ARG... VENV is a virtual environment.
# This shell has no handler, so the notice goes to torchrun and to each of its workers.
set -e
source "$VENV/bin/activate"
# torchrun ends at the notice, too. By default it kills its workers 30 s later.
exec torchrun --nnodes "$NNODES" --node-rank "$NODE_RANK" \
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
    --nproc-per-node "$TIDEGATE_GPUS_PER_NODE" --shutdown-timeout 3600 "$@"
