#!/bin/bash
# Starts a training with Ray on all nodes of a job: ray.sh FILE ARG...
# VENV is a virtual environment. Submit it with `--signal B:TERM`: the notice comes to this shell
# alone. Ray's own processes would end at it, before anything is saved.
source "$VENV/bin/activate"
notice="$TIDEGATE_CHECKPOINT_PATH/notice"
if [ "$NODE_RANK" != 0 ]; then
    trap : TERM  # the first node decides for all
    until (echo >"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do sleep 1; done
    ray start --address "$MASTER_ADDR:$MASTER_PORT" --block
    exit 0  # the first node has ended, and its exit code counts
fi
mkdir -p "$TIDEGATE_CHECKPOINT_PATH"
rm -f "$notice"
trap 'touch "$notice"' TERM
ray start --head --port "$MASTER_PORT"
python -u "$@" &
training=$!
wait "$training"
code=$?
while kill -0 "$training" 2>/dev/null; do  # the trap ended `wait`, and the training still saves
    wait "$training"
    code=$?
done
ray stop >/dev/null 2>&1  # else Ray's processes keep the GPUs until the grace is over
exit "$code"
