#!/bin/sh
# The whole airline chain on the tiny model, offline, minutes on two cores: scripts/airline-chain.sh [RUNS]
# Collects from the scripted teacher, SFT, the five experiments with --mock, a benchmark of each, the ablation with its
# plots. It shows that all of it works together; a model of this size learns little of such dialogues. What is there
# already is not made again.
set -eu
runs=${1:-runs/airline-chain}
began=$(date +%s)
options='{"prompt":{"mode":"date-only","tools":false},"protocol":{"tool_response_max_chars":256}}' # as MOCK in experiments.ts
# Short ones: two sets of seen tasks, the first of which --mock trains on, and one of unseen tasks.
tasks=synth-16,synth-31,synth-38,synth-44,synth-13,synth-17,synth-24,synth-36,synth-15,synth-35,synth-40,synth-45
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # experiments run side by side, a core each
trestle() { node --import tsx src/cli.ts "$@" --runs-dir "$runs"; }
done_already() { [ -f "$runs/$1/manifest.json" ] && grep -q '"status": "completed"' "$runs/$1/manifest.json"; }
told() { echo "airline-chain: $1, after $(($(date +%s) - began)) s"; }
experiment() { # NAME
  done_already "$1" || trestle grpo --exp "$1" --mock --model "$runs/sft/final" --seed "${SEED:-42}" --name "$1"
  done_already "bench-$1" || trestle bench --policy "model:$runs/$1/final" --env airline --env-options "$options" \
    --split test --task-ids $tasks --repeat 2 --temperature 0.7 --top-p 0.9 --max-turns 12 --max-turn-tokens 128 \
    --max-episode-tokens 1024 --max-context-tokens 4096 --name "bench-$1"
}

mkdir -p "$runs"
[ -f "$runs/teacher/summary.json" ] || trestle collect --env airline --policy gold --env-options "$options" --name teacher
told "teacher collected"
done_already sft || trestle sft --env airline --rows "$runs/teacher/train.jsonl" --max-length 1300 \
  --max-steps "${SFT_STEPS:-40}" --no-verify --name sft
told "SFT done"
for pair in "vanilla turn_discount" "lata prm_lite" prm_lite_lata; do
  started=
  for exp in $pair; do
    experiment "$exp" >"$runs/$exp.log" 2>&1 &
    started="$started $!"
  done
  for process in $started; do
    wait "$process" || { echo "airline-chain: failed, see $runs/*.log" >&2; exit 1; }
  done
  told "$pair trained and measured"
done
node --import tsx src/cli.ts eval --env airline "$runs"/bench-vanilla "$runs"/bench-turn_discount "$runs"/bench-lata \
  "$runs"/bench-prm_lite "$runs"/bench-prm_lite_lata --output "$runs/ablation"
told "ablation written to $runs/ablation"
