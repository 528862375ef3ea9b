"""Keys of TRL's DPOConfig that go together only in some ways: TRL says so after the model has loaded, or not at all."""

from typing import Any

LOSSES = [
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]
# Losses of the difference of two rewards: in the others the partition function of an f-divergence does not cancel.
DIFFERENCE_LOSSES = ["sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"]
SMOOTHED_LOSSES = ["exo_pair", "robust", "aot", "aot_unpaired"]


def option_problems(trainer: dict[str, Any]) -> list[str]:
    """Pairs of keys that TRL refuses, and keys that it would not read. Values are of their types already."""
    given = trainer.get("loss_type", ["sigmoid"])
    losses = given if isinstance(given, list) else [given]
    divergence = trainer.get("f_divergence_type", "reverse_kl")
    smoothing = trainer.get("label_smoothing", 0.0)
    problems = []

    def needs(key: str, holds: bool, what: str) -> None:
        if key in trainer and not holds:
            problems.append(f"trainer.{key} is set, but it counts only with {what}. Leave it out, or set that.")

    needs("label_smoothing", bool(set(losses) & set(SMOOTHED_LOSSES)), f"loss_type {', '.join(SMOOTHED_LOSSES)}")
    needs("discopop_tau", "discopop" in losses, "loss_type discopop")
    needs("f_alpha_divergence_coef", divergence == "alpha_divergence", "f_divergence_type alpha_divergence")
    needs("ref_model_mixup_alpha", bool(trainer.get("sync_ref_model")), "sync_ref_model")
    needs("ref_model_sync_steps", bool(trainer.get("sync_ref_model")), "sync_ref_model")
    needs("precompute_ref_batch_size", bool(trainer.get("precompute_ref_log_probs")), "precompute_ref_log_probs")

    if len(set(losses)) < len(losses):
        problems.append(f"trainer.loss_type is {losses}; expected each loss once, weighted by loss_weights.")
    if "exo_pair" in losses and smoothing == 0:
        problems.append("trainer.loss_type exo_pair needs label_smoothing above 0, as 0.001.")
    if "robust" in losses and not 0 <= smoothing < 0.5:
        problems.append(f"trainer.label_smoothing is {smoothing}; loss_type robust takes 0 to below 0.5.")
    if divergence != "reverse_kl" and (others := [loss for loss in losses if loss not in DIFFERENCE_LOSSES]):
        problems.append(
            f"trainer.f_divergence_type {divergence} does not go with loss_type {', '.join(others)}; "
            f"it does with {', '.join(DIFFERENCE_LOSSES)}."
        )
    if trainer.get("use_weighting") and {"aot", "aot_unpaired"} & set(losses):
        problems.append("trainer.use_weighting does not go with loss_type aot or aot_unpaired, which sort the pairs.")
    if trainer.get("sync_ref_model") and trainer.get("precompute_ref_log_probs"):
        problems.append("trainer.sync_ref_model moves the reference, precompute_ref_log_probs fixes it: set one.")
    alpha = trainer.get("ld_alpha")
    if alpha is not None and not 0 <= alpha <= 1:
        problems.append(f"trainer.ld_alpha is {alpha}; expected 0 to 1.")
    return problems


def adapter_problems(trainer: dict[str, Any]) -> list[str]:
    """What an adapter does not go with: its reference is the model without it, or a copy that stays as it was."""
    if trainer.get("sync_ref_model"):
        return ["trainer.sync_ref_model needs a reference model of its own, which a LoRA run has not. Leave one out."]
    return []
