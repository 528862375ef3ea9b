#!/bin/sh
# What GRPO brings the tiny model in the search environment, with one seed: scripts/search-seeds.sh 42 [RUNS]
# SFT, GRPO with the published loss, and both on the held-out questions. About 20 minutes a seed on one core.
# scripts/compare-seeds.ts sums up several seeds. What is there already is not made again.
set -eu
seed=$1
runs=${2:-runs/search-seeds}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
trestle() { node --import tsx src/cli.ts "$@"; }
done_already() { [ -f "$runs/$1/manifest.json" ] && grep -q '"status": "completed"' "$runs/$1/manifest.json"; }
done_already "sft-$seed" || trestle sft configs/sft-search-tiny.yaml --no-verify --seed "$seed" --runs-dir "$runs" --name "sft-$seed"
done_already "grpo-$seed" || trestle grpo configs/search-tiny.yaml --no-verify --model "$runs/sft-$seed/final" \
  --seed "$seed" --runs-dir "$runs" --name "grpo-$seed"
trestle compare --env search --env-options '{"prompt":"compact"}' --baseline --base "$runs/sft-$seed/final" \
  --checkpoint "$runs/grpo-$seed/final" --temperature 0.7 --repeat 4 --seed 7 --max-turn-tokens 144 \
  --max-episode-tokens 144 --max-context-tokens 768 --output "$runs/compare-$seed"
