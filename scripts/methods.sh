#!/bin/sh
# Every way of training, from the same SFT policy, on the tiny model, with one seed: scripts/methods.sh 42
# Leaves runs/methods/<method>-<seed> and bench-<method>-<seed>; scripts/methods-table.ts makes the table of several
# seeds. About 25 minutes a seed on one core. What is there already is not made again.
set -eu
seed=$1
methods=${2:-"dapo grpo gspo dr_grpo dpo opd"}
runs=runs/methods
trestle() { node --import tsx src/cli.ts "$@" --runs-dir $runs; }
done_already() { [ -f "$runs/$1/manifest.json" ] && grep -q '"status": "completed"' "$runs/$1/manifest.json"; }
bench() {
  done_already "bench-$1" || trestle bench --policy "model:$runs/$1/final" --split v6:rl_train,dev,iid_test,ood_test \
    --env-options '{"prompt":"minimal"}' --repeat 8 --temperature 1 --max-turn-tokens 96 --max-episode-tokens 320 \
    --max-context-tokens 1536 --seed 7 --name "bench-$1"
}
train() { # NAME RECIPE FLAGS…
  name=$1-$seed; recipe=$2; shift 2
  done_already "$name" || trestle "$recipe" --seed "$seed" --name "$name" --resume "$@"
  bench "$name"
}

done_already "sft-$seed" || trestle sft --seed "$seed" --name "sft-$seed"
bench "sft-$seed"
start="--model $runs/sft-$seed/final"
steps="--max-steps ${STEPS:-70}"
for method in $methods; do
  case $method in
    dapo) train dapo grpo $start $steps --dapo ;;
    grpo) train grpo grpo $start $steps --loss-type grpo --beta 0 ;;
    gspo) train gspo grpo $start $steps --gspo --loss-type grpo --num-iterations 2 ;; # used once, its ratios would all be 1
    dr_grpo) train dr_grpo grpo $start $steps --dr-grpo ;;
    dpo)
      done_already "rollouts-$seed" || trestle rollout --policy "model:$runs/sft-$seed/final" --split v3_81:train \
        --env-options '{"prompt":"minimal"}' --repeat 8 --temperature 0.8 --seed 42 --max-turn-tokens 96 \
        --max-episode-tokens 320 --max-context-tokens 1536 --name "rollouts-$seed"
      [ -f "$runs/pairs-$seed.jsonl" ] || node --import tsx src/cli.ts data arxiv dpo "$runs/rollouts-$seed" \
        --env-options '{"prompt":"minimal"}' --split v3_81:train --output "$runs/pairs-$seed.jsonl"
      train dpo dpo $start --pairs "$runs/pairs-$seed.jsonl"
      ;;
    opd)
      # Four times the student's SFT; of another seed.
      done_already teacher || trestle sft --seed 41 --max-steps 480 --name teacher
      bench teacher
      train opd opd $start --teacher "model:$runs/teacher/final"
      ;;
    *) echo "There is no method '$method'." >&2; exit 2 ;;
  esac
done
