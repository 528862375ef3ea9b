"""vLLM as a sampler: the same rollouts as our own where it draws by our rule, and what happens where it fails."""

import json
import math
import subprocess
import sys
import threading
import time
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_host import FakeHost
from stub_vllm import SETTINGS, StubServer, noting_seeds
from test_grpo import request_of  # noqa: F401 (a fixture)
from trainers import grpo, preflight, vllm_options, vllm_server
from trainers.model import UserError, load_policy
from trainers.rollout import play_batch
from trainers.sampling import SamplingParams
from trainers.tokens import ChatFormat
from trainers.vllm_options import engine_problems, key_problems
from trainers.vllm_sampler import ColocatedEngine, VllmSampler, context_argument, seed_of
from trainers.vllm_server import ServerEngine, ServerError, read_choice, server_problems, start_command, watched_sync

from tiny import ScriptedHost, tiny_continuation, tiny_model, tiny_tokenizer

TOKENIZER = tiny_tokenizer(straddle=True)
CHAT = ChatFormat(TOKENIZER)
MODEL = tiny_model(TOKENIZER, end_rate=0.1, hidden_size=64, num_hidden_layers=2)
END = CHAT.end_id
PROMPTS = {name: [{"role": "user", "content": f"Do {name}. " * 3}] for name in ("a", "b")}
PARAMS = SamplingParams(seed=7, max_turn_tokens=12, max_episode_tokens=40)


@pytest.fixture
def server():
    with StubServer(MODEL, tokenizer=TOKENIZER) as stub:
        yield stub


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(vllm_server, "PAUSE_S", 0.01)


def engine_of(server, timeout_s=5.0):
    return ServerEngine(server.url, server.name, timeout_s)


def play(chat, params, engine=None, model=MODEL):
    host = ScriptedHost(
        PROMPTS, lambda task, turn, reply: None if len(reply) % 5 == 4 else f"{task}: {turn}", max_turns=4
    )
    episodes = [{"task_id": name, "seed": 3, "trial": trial} for name in PROMPTS for trial in range(3)]
    policy = SimpleNamespace(model=model, engine=engine)
    return play_batch(policy, chat, host, episodes, params, policy_step=0, policy_name="tiny"), host


def ask(engine, chat=CHAT, budget=4, rows=1, **params):
    settings = SamplingParams(**{"seed": 1, **params})
    uniforms = np.random.default_rng(5).random((rows, 8))
    return VllmSampler(engine, chat, settings).turn(range(rows), [[5, 6, 7]] * rows, [budget] * rows, uniforms)


# ------------------------------------------------------------------------------------------------------- rollouts


@pytest.mark.parametrize(
    "filters", [{}, {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.01}], ids=["plain", "filtered"]
)
@pytest.mark.parametrize("style", ["chat", "continuation", "stop"])
def test_the_same_rollouts_as_our_own_sampler_where_the_server_draws_by_our_rule(server, style, filters):
    chat = CHAT if style == "chat" else tiny_continuation(TOKENIZER, *(["\n"] if style == "stop" else []))
    params = SamplingParams(seed=7, max_turn_tokens=12, max_episode_tokens=40, **filters)
    own, own_host = play(chat, params)
    with noting_seeds(server):
        served, host = play(chat, params, engine_of(server))
    for one, other in zip(own, served, strict=True):
        assert one.completion_ids == other.completion_ids and one.env_mask == other.env_mask
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        assert (one.turns, one.cut_replies, one.stopped_replies) == (
            other.turns,
            other.cut_replies,
            other.stopped_replies,
        )
    assert [each["replies"] for each in host.episodes] == [each["replies"] for each in own_host.episodes]
    assert len({rollout.turns for rollout in served}) > 1 and (filters or any(each.cut_replies for each in served))
    assert style != "stop" or filters or any(rollout.stopped_replies for rollout in served)


def test_each_row_has_its_own_budget_and_seed_and_every_end_of_turn_id(server):
    with noting_seeds(server):
        play(CHAT, replace(PARAMS, max_episode_tokens=20), engine_of(server))
    first = server.requests[0]
    assert first["stop_token_ids"] == sorted(CHAT.end_ids) and len(CHAT.end_ids) > 1 and first["ignore_eos"] is True
    assert first["repetition_penalty"] == 1.0 and first["logprobs"] == 0 and "stop" not in first
    assert len({request["seed"] for request in server.requests}) == len(server.requests)
    assert len({request["max_tokens"] for request in server.requests}) > 1
    assert all(isinstance(token, int) for request in server.requests for token in request["prompt"][0])


def test_a_stop_text_is_vllms_too_and_a_reply_is_cut_where_our_own_rule_ends_it():
    chat = tiny_continuation(TOKENIZER, "\n")
    newline = TOKENIZER.encode("\n", add_special_tokens=False)
    word = TOKENIZER.encode("x", add_special_tokens=False)
    seen = []

    class Careless:  # one that samples on behind the stop text
        def complete(self, requests):
            seen.extend(params for _, params in requests)
            return [(word + newline + word * 5, [-0.5] * 7)]

    [(ids, logprobs)] = ask(Careless(), chat, budget=8)
    assert ids == word + newline and len(logprobs) == 2
    assert seen[0]["stop"] == ["\n"]


class Fixed:
    def __init__(self, *replies):
        self.replies = list(replies)

    def complete(self, requests):
        return self.replies


@pytest.mark.parametrize(
    ("replies", "kept"),
    [
        ([([9, 8, 7, 6, 5], [-1.0] * 5)], [9, 8, 7, 6]),  # beyond its budget
        ([([9, END, 7, 6], [-1.0] * 4)], [9, END]),  # on behind an end of turn
        ([([TOKENIZER.eos_token_id], [-1.0])], [TOKENIZER.eos_token_id]),
    ],
)
def test_a_reply_ends_where_our_rules_say(replies, kept):
    [(ids, logprobs)] = ask(Fixed(*replies))
    assert ids == kept and len(logprobs) == len(kept)


@pytest.mark.parametrize(
    ("replies", "error", "says"),
    [
        ([], RuntimeError, "1 replies asked of vLLM, 0 returned"),
        ([([], [])], RuntimeError, "without a token"),
        ([([9, 8], [-1.0])], RuntimeError, "2 tokens with 1 logprobs"),
        ([([9, 8], [-1.0, -1.0])], RuntimeError, "after 2 of 4 tokens with id 8"),
        ([([9, END], [math.nan] * 2)], FloatingPointError, "diverged"),
    ],
)
def test_what_is_no_reply_ends_the_step(replies, error, says):
    with pytest.raises(error, match=says):
        ask(Fixed(*replies))


def test_seeds_are_exact_in_json_and_differ():
    uniforms = np.random.default_rng(1).random((1000, 3))
    seeds = [seed_of(row) for row in uniforms]
    assert len(set(seeds)) == 1000 and all(0 <= seed < 2**52 for seed in seeds)
    assert [json.loads(json.dumps(seed)) for seed in seeds] == seeds


# ------------------------------------------------------------------------------------------------------- logprobs


def choice(tokens, values, tops, ids=(5, 6)):
    return {"token_ids": list(ids), "logprobs": {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}}


def test_tk13_a_logprob_is_looked_up_by_the_sampled_id():
    tops = [{"token_id:9": -0.1, "token_id:5": -2.0}, {"token_id:6": -0.4, "token_id:1": -3.0}]
    ids, logprobs = read_choice(choice(["token_id:9", "token_id:6"], [-0.1, -0.4], tops))
    assert ids == [5, 6] and logprobs == [-2.0, -0.4]


@pytest.mark.parametrize(
    "given",
    [
        choice(["token_id:5", "token_id:6"], [-1.0, None], [{"token_id:5": -1.0}, None]),
        choice(["token_id:5", "token_id:6"], [-1.0, math.nan], [{"token_id:5": -1.0}, {"token_id:6": math.nan}]),
        choice(["token_id:5", "token_id:9"], [-1.0, -0.2], [{"token_id:5": -1.0}, {"token_id:9": -0.2}]),
        choice(["token_id:5"], [-1.0], [{"token_id:5": -1.0}]),
    ],
    ids=["null", "NaN", "another token's only", "one too few"],
)
def test_tk12_a_logprob_that_is_missing_is_nan(given):
    ids, logprobs = read_choice(given)
    assert ids == [5, 6] and logprobs[0] == -1.0 and math.isnan(logprobs[1])


def test_a_server_that_returns_no_ids_is_refused():
    with pytest.raises(ServerError, match="too old"):
        read_choice({"text": "hello", "logprobs": None})


# ------------------------------------------------------------------------------------------------------- faults


def test_errors_that_pass_are_tried_again_with_the_same_seed(server):
    faults = [(500, "busy"), (503, "busy")]
    server.fault = lambda path, payload: faults.pop() if path == "/v1/completions" and faults else None
    with noting_seeds(server):
        ask(engine_of(server))
    assert not faults and len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            (500, '{"error": "CUDA out of memory"}'),
            ["does not sample any more (status 500", "out of memory", "vllm serve"],
        ),
        ((400, '{"error": "maximum context length is 64"}'), ["refuses to sample (status 400", "64"]),
        ((200, {"choices": []}), ["1 completion asked, 0 returned"]),
        ((200, {"choices": [{}, {}]}), ["1 completion asked, 2 returned"]),
        ((200, {"choices": "none"}), ["no list of them"]),
        ((200, "<html>"), ["no JSON", "<html>"]),
        (3.0, ["no answer within 0.5 s", "--vllm-server-timeout"]),
    ],
    ids=["500", "400", "too few", "too many", "no list", "no JSON", "silence"],
)
def test_a_server_that_fails_ends_the_run_with_a_sentence(server, fault, says):
    engine = engine_of(server, timeout_s=0.5)
    server.fault = lambda path, payload: fault if path == "/v1/completions" else None
    begun = time.monotonic()
    with pytest.raises(UserError) as error, noting_seeds(server):
        ask(engine, rows=3)
    assert time.monotonic() - begun < 2.5
    for text in [server.url, *says]:
        assert text in str(error.value)


def test_a_server_that_dies_in_the_middle_of_an_episode_ends_the_run_at_once(server):
    engine = engine_of(server)
    seen = []

    def dies(path, payload):
        seen.append(path)
        if seen.count("/v1/completions") == 8:  # six rows, then two of the second turn
            server.stop()
        return None

    server.fault = dies
    begun = time.monotonic()
    with (
        pytest.raises(UserError, match=r"does not sample any more .*refused.* start it again .*vllm serve"),
        noting_seeds(server),
    ):
        play(CHAT, PARAMS, engine)
    assert time.monotonic() - begun < 5


def test_a_dead_server_is_noticed_before_the_weights_are_sent(server):
    engine, sent = engine_of(server), []
    sync = watched_sync(lambda: sent.append(1), engine, 5)
    sync()
    assert sent == [1]
    server.stop()
    with pytest.raises(UserError, match="refused"):
        sync()
    assert sent == [1]


def test_a_server_that_dies_while_weights_are_sent_ends_the_process_which_would_wait_for_ever():
    script = f"""
import sys, time
sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parent)]!r}
from stub_vllm import StubServer
from trainers import vllm_server
vllm_server.WATCH_S = 0.05
with StubServer(None) as server:
    def broadcast():
        print("begun", flush=True)
        server.stop()
        time.sleep(60)
    vllm_server.watched_sync(broadcast, vllm_server.ServerEngine(server.url, "tiny", 5), 60)()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1 and done.stdout == "begun\n"
    assert "does not sample any more" in done.stderr.splitlines()[-1]


def test_so_does_one_that_answers_and_takes_no_weights(server, monkeypatch, capsys):
    ended = threading.Event()
    monkeypatch.setattr(vllm_server, "WATCH_S", 0.02)
    monkeypatch.setattr(vllm_server.os, "_exit", lambda code: ended.set())
    watched_sync(lambda: ended.wait(20), engine_of(server), 0.2)()
    assert ended.is_set() and "has not taken the weights within 0.2 s" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ before it starts


def test_a_server_that_fits_has_no_problem(server, tmp_path):
    assert server_problems(server.url, "tiny", 4096) == []
    server.name = str(tmp_path / "." / "model")
    (tmp_path / "model").mkdir()
    assert server_problems(server.url, str(tmp_path / "model"), None) == [], "one folder, spelt in two ways"


@pytest.mark.parametrize(
    ("change", "model", "need", "says"),
    [
        ({}, "other", None, "serves 'tiny'; expected 'other'"),
        ({"max_model_len": 512}, "tiny", 1024, "contexts of 512 tokens; expected 1024. Set --max-context-tokens 512"),
        ({"settings": None}, "tiny", None, "VLLM_SERVER_DEV_MODE=1 vllm serve tiny"),
        ({"settings": {**SETTINGS, "weight_transfer_config": None}}, "tiny", None, "no weight-transfer engine"),
        (
            {"settings": {**SETTINGS, "model_config": {"logprobs_mode": "raw_logprobs"}}},
            "tiny",
            None,
            "raw_logprobs; expected",
        ),
    ],
    ids=["another model", "short context", "no development mode", "no transfer", "raw logprobs"],
)
def test_a_server_that_does_not_fit_is_refused_with_what_to_do(server, change, model, need, says):
    for name, value in change.items():
        setattr(server, name, value)
    [problem] = server_problems(server.url, model, need)
    assert (says in problem and "vllm serve" in problem) or "--max-model-len" in problem


def test_no_server_and_something_else_are_told_within_seconds(server):
    begun = time.monotonic()
    [problem] = server_problems("http://127.0.0.1:9", "models/tiny", None)
    assert "no vLLM server answers at http://127.0.0.1:9" in problem
    assert "VLLM_SERVER_DEV_MODE=1 vllm serve models/tiny --port 9 --weight-transfer-config" in problem
    server.fault = lambda path, payload: (200, {"hello": "world"})
    [problem] = server_problems(server.url, "tiny", None)
    assert "is no vLLM server" in problem
    server.fault = lambda path, payload: 10.0
    [problem] = server_problems(server.url, "tiny", None)
    assert "no answer within 3 s" in problem
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    ("trainer", "says"),
    [
        ({"vllm_mode": "server"}, ["vllm_mode counts only with use_vllm"]),
        ({"use_vllm": False, "vllm_importance_sampling_mode": "token_mask"}, ["counts only with use_vllm"]),
        ({"use_vllm": True, "vllm_server_port": 8001}, ["vllm_server_port counts only with vllm_mode server"]),
        ({"use_vllm": True, "vllm_mode": "server", "vllm_max_model_length": 9}, ["only with vllm_mode colocate"]),
        (
            {"use_vllm": True, "vllm_importance_sampling_correction": False, "vllm_importance_sampling_clip_max": 2.0},
            ["vllm_importance_sampling_clip_max counts only with vllm_importance_sampling_correction"],
        ),
        ({"use_vllm": True, "loss_type": "vespo"}, ["vespo", "token_truncate", "sequence_mask"]),
        ({"use_vllm": True, "vllm_tensor_parallel_size": 2}, ["--tensor-parallel-size"]),
        (
            {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://a:1", "vllm_server_port": 1},
            ["say the same thing"],
        ),
    ],
)
def test_vllm_keys_that_would_be_ignored_are_refused(trainer, says):
    [problem] = key_problems(trainer)
    for text in says:
        assert text in problem


@pytest.mark.parametrize(
    "trainer",
    [
        {},
        {"use_vllm": True},
        {"use_vllm": True, "vllm_gpu_memory_utilization": 0.4, "vllm_enable_sleep_mode": True},
        {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_port": 8001,
            "vllm_importance_sampling_mode": "token_truncate",
        },
        {"use_vllm": True, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_mask"},
    ],
)
def test_vllm_keys_that_fit_pass(trainer):
    assert preflight.trainer_problems("grpo", trainer)[0] == []


@pytest.mark.parametrize(
    ("trainer", "says"),
    [
        ({"use_vllm": True, "vllm_mode": "serve"}, "trainer.vllm_mode is 'serve'; expected one of colocate, server."),
        ({"use_vllm": True, "vllm_importance_sampling_mode": "token"}, "expected one of token_truncate"),
        ({"use_vllm": True, "vllm_structured_outputs_regex": "a*"}, "cannot be set here"),
        ({"use_vllm": True, "vllm_server_port": "x"}, "expected a whole number"),
    ],
)
def test_values_that_trl_has_not_are_refused(trainer, says):
    problems, _ = preflight.trainer_problems("grpo", trainer)
    assert says in " ".join(problems)


def test_what_is_missing_here_is_told_together(server, monkeypatch):
    monkeypatch.setattr(vllm_options, "find_spec", lambda name: None)
    problems = engine_problems(
        {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": server.url}, "other", 64
    )
    text = " ".join(problems)
    assert "vllm and requests are not installed" in text and "pip install 'trl[vllm]'" in text
    assert "serves 'tiny'; expected 'other'" in text
    assert torch.cuda.is_available() or "needs a CUDA GPU" in text
    assert "vllm is not installed" in engine_problems({"use_vllm": True}, "tiny", None)[0]
    assert engine_problems({}, "tiny", 64) == []


def test_a_colocated_context_that_is_too_short_is_refused_and_the_episodes_own_is_the_default(monkeypatch):
    monkeypatch.setattr(vllm_options, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    [problem] = engine_problems({"use_vllm": True, "vllm_max_model_length": 512}, "tiny", 1024)
    assert "vllm_max_model_length is 512; expected 1024" in problem and "--max-context-tokens 512" in problem
    assert engine_problems({"use_vllm": True}, "tiny", 1024) == []
    sampling = {"max_context_tokens": 512}
    assert context_argument(MODEL, sampling, {"use_vllm": True}) == {"vllm_max_model_length": 512}
    assert context_argument(MODEL, {"max_context_tokens": None}, {"use_vllm": True}) == {"vllm_max_model_length": 4096}
    for trainer in ({}, {"use_vllm": True, "vllm_mode": "server"}, {"use_vllm": True, "vllm_max_model_length": 9}):
        assert context_argument(MODEL, sampling, trainer) == {}


def test_the_start_command_can_be_pasted():
    assert start_command("a model", "http://h:8001").startswith(
        "VLLM_SERVER_DEV_MODE=1 vllm serve 'a model' --port 8001 "
    )
    assert "--port" not in start_command("m", "http://h")


# ------------------------------------------------------------------------------------------------------- colocate


class FakeLLM:
    """vLLM's LLM as far as it is asked here: notes its calls, replies with an end of turn."""

    def __init__(self):
        self.calls = []

    def generate(self, prompts, sampling_params, use_tqdm):
        self.calls.append(("generate", len(prompts)))
        assert len(prompts) == len(sampling_params) and use_tqdm is False
        assert not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda")
        reply = [9, END]
        entries = [{8: SimpleNamespace(logprob=-0.1, rank=1), 9: SimpleNamespace(logprob=-2.0, rank=2)}, {END: None}]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=reply, logprobs=entries)]) for _ in prompts]

    def wake_up(self, tags):
        self.calls.append(("wake_up", *tags))

    def sleep(self, level):
        self.calls.append(("sleep", level))


@pytest.fixture
def vllm_module(monkeypatch):
    module = types.ModuleType("vllm")
    module.SamplingParams = lambda **params: SimpleNamespace(**params)
    monkeypatch.setitem(sys.modules, "vllm", module)


def generation_of(llm, *, sleep):
    generation = SimpleNamespace(llm=llm, enable_sleep_mode=sleep, _llm_weights_sleeping=sleep)

    def sync_weights():
        llm.calls.append(("sync",))
        generation._llm_weights_sleeping = False

    generation.sync_weights = sync_weights
    return generation


def test_an_engine_in_this_process_gives_ids_and_their_logprobs(vllm_module):
    llm = FakeLLM()
    with torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16):  # as the loss is computed in
        replies = ask(ColocatedEngine(generation_of(llm, sleep=False)), rows=2)
    assert [ids for ids, _ in replies] == [[9, END]] * 2
    for _, logprobs in replies:
        assert logprobs[0] == -2.0 and math.isnan(logprobs[1])  # TK-13, TK-12
    assert llm.calls == [("generate", 2)]


def test_a_sleeping_engine_is_awake_for_all_turns_of_a_batch_and_gets_its_weights_again(vllm_module):
    llm = FakeLLM()
    engine = ColocatedEngine(generation_of(llm, sleep=True))
    engine.awake(lambda: (ask(engine), ask(engine)))()
    turns = [("generate", 1), ("generate", 1)]
    assert llm.calls == [("sync",), ("wake_up", "kv_cache"), *turns, ("sleep", 2)]
    ask(engine)  # outside a batch
    assert llm.calls[5:] == [("sync",), ("wake_up", "kv_cache"), ("generate", 1), ("sleep", 2)]


# -------------------------------------------------------------------------------------------- through the trainer


class StandInGeneration:
    """TRL's VLLMGeneration without vLLM: the weights go to the stub server's model."""

    server: StubServer

    def __init__(self, model, accelerator, **arguments):
        self.model, self.mode, self.arguments = model, arguments["mode"], arguments
        self.vllm_client = SimpleNamespace(get_server_info=lambda: SETTINGS)
        self.syncs = 0

    def sync_weights(self):
        self.syncs += 1
        self.server.model.load_state_dict(self.model.state_dict())


@pytest.fixture
def served_trainer(request_of, tiny_folder, monkeypatch):  # noqa: F811
    """A GRPO request that samples from a stub server of the same architecture, with other weights."""
    import trl.trainer.grpo_trainer as module

    policy = load_policy({"model": str(tiny_folder)})
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(0.5)
    with StubServer(policy.model, str(tiny_folder), max_model_len=1024) as server:
        monkeypatch.setattr(StandInGeneration, "server", server, raising=False)
        monkeypatch.setattr(module, "VLLMGeneration", StandInGeneration)
        monkeypatch.setattr(module, "is_vllm_available", lambda *_: True, raising=False)
        vllm = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": server.url}
        with noting_seeds(server):
            yield server, lambda **trainer: request_of(trainer={**vllm, **trainer})


def test_grpo_learns_from_a_server_that_follows_its_weights(served_trainer, tmp_path):
    server, request = served_trainer
    host = FakeHost()
    result = grpo.run(request(), host)
    assert result["steps"] == 2 and result["rollouts"] == 16
    steps = [log["metrics"] for log in host.logs if "loss" in log["metrics"]]
    for metrics in steps:  # each step's rollouts come from that step's weights
        assert metrics["sampling/sampling_logp_difference/max"] < 1e-3
        assert metrics["sampling/importance_sampling_ratio/mean"] == pytest.approx(1, abs=1e-3)
        assert metrics["sampling/missing_logprobs"] == 0
    before, after = load_policy({"model": request()["model"]}), load_policy({"model": str(tmp_path / "run" / "final")})
    served = dict(server.model.named_parameters())
    assert all(  # the weights of the second step: no longer the first ones, and not yet the last
        not torch.equal(served[name], value)
        for policy in (before, after)
        for name, value in policy.model.named_parameters()
    )


def test_a_server_that_was_not_given_the_weights_shows(served_trainer, monkeypatch):
    _, request = served_trainer
    monkeypatch.setattr(StandInGeneration, "sync_weights", lambda self: None)
    host = FakeHost()
    grpo.run(request(), host)
    assert host.logs[0]["metrics"]["sampling/sampling_logp_difference/mean"] > 0.1


def test_qlora_is_refused_before_the_server_is_asked():
    request = {"qlora": True, "trainer": {"use_vllm": True}}
    assert "qlora" in preflight.vllm_problems(request, None)[0]


def test_the_same_run_as_with_our_own_sampler(served_trainer, request_of, tmp_path):  # noqa: F811
    _, request = served_trainer
    hosts = FakeHost(), FakeHost()
    grpo.run(request(), hosts[0])
    grpo.run(request_of(output_dir=str(tmp_path / "own")), hosts[1])
    replies = [[each["episode"].replies for each in host.finished] for host in hosts]
    assert replies[0][:8] == replies[1][:8]
    losses = [[log["metrics"]["loss"] for log in host.logs if "loss" in log["metrics"]] for host in hosts]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_tk12_a_token_without_a_logprob_takes_part_with_a_neutral_ratio(served_trainer, monkeypatch):
    server, request = served_trainer
    original = server._complete

    def without_first(payload):
        answer = original(payload)
        given = answer["choices"][0]["logprobs"]
        if len(given["tokens"]) > 1:
            given["token_logprobs"][0], given["top_logprobs"][0] = None, None
        return answer

    monkeypatch.setattr(server, "_complete", without_first)
    host = FakeHost()
    assert math.isfinite(grpo.run(request(vllm_importance_sampling_mode="token_truncate"), host)["train_loss"])
    metrics = host.logs[0]["metrics"]
    assert metrics["sampling/missing_logprobs"] > 0
    assert metrics["sampling/importance_sampling_ratio/max"] == pytest.approx(1, abs=1e-3)


def test_an_importance_ratio_is_computed_from_the_samplers_logprobs(served_trainer, monkeypatch):
    server, request = served_trainer
    original = server._complete

    def shifted(payload):
        answer = original(payload)
        given = answer["choices"][0]["logprobs"]
        given["token_logprobs"] = [value - math.log(2) for value in given["token_logprobs"]]
        return answer

    monkeypatch.setattr(server, "_complete", shifted)
    host = FakeHost()
    grpo.run(request(vllm_importance_sampling_mode="token_truncate", vllm_importance_sampling_clip_max=1.5), host)
    metrics = host.logs[0]["metrics"]
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(math.log(2), abs=1e-3)
    assert metrics["sampling/importance_sampling_ratio/max"] == pytest.approx(1.5)  # 2, cut


def test_a_quantised_base_is_refused_by_name(served_trainer):
    _, request = served_trainer
    policy = load_policy(request())
    policy.model.is_loaded_in_4bit = True
    with pytest.raises(UserError, match="quantised"):
        grpo.build_trainer(request(), policy, FakeHost())
