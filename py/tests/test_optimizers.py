"""Muon and AdamW as one optimizer: who gets what, one list of groups for schedulers, a state that comes back."""

import copy

import pytest
import torch
from trainers.optimizers import MuonWithAdamW
from transformers import AutoModelForCausalLM


@pytest.fixture
def model(tiny_folder):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)


def loss_of(model):
    return model(input_ids=torch.arange(12).view(2, 6), labels=torch.arange(12).view(2, 6)).loss


def step(model, optimizer):
    loss = loss_of(model)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def test_muon_takes_the_layers_matrices_and_adamw_everything_else(model):
    optimizer = MuonWithAdamW(model, matrix_learning_rate=0.02, learning_rate=1e-3)
    muon, adamw = optimizer.param_groups
    assert muon["lr"] == 0.02
    assert adamw["lr"] == 1e-3
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert all("layers" in names[id(weight)] and weight.ndim == 2 for weight in muon["params"])
    assert any("embed" in names[id(weight)] for weight in adamw["params"])
    assert len(muon["params"]) + len(adamw["params"]) == len(names)


def test_a_scheduler_sets_both_rates_and_rate_0_moves_nothing(model):
    optimizer = MuonWithAdamW(model, 0.02, 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: [1.0, 0.5, 0.0][min(step, 2)])
    first = step(model, optimizer)
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 5e-4]
    step(model, optimizer)
    schedule.step()
    before = [weight.detach().clone() for weight in model.parameters()]
    step(model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert loss_of(model).item() < first


def test_training_goes_on_from_a_saved_state_as_if_unbroken(model, tiny_folder):
    optimizer = MuonWithAdamW(model, 0.02, 1e-3)
    step(model, optimizer)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = copy.deepcopy(optimizer.state_dict())
    unbroken = step(model, optimizer), step(model, optimizer)

    again = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    again.load_state_dict(weights)
    resumed = MuonWithAdamW(again, 0.5, 0.5)
    resumed.load_state_dict(state)
    assert [group["lr"] for group in resumed.param_groups] == [0.02, 1e-3]
    assert (step(again, resumed), step(again, resumed)) == unbroken
