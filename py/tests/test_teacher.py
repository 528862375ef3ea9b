"""The teacher before it teaches: tokenizers, context and endpoint, and every way in which an endpoint can fail."""

import copy
import json
import time

import pytest
import torch
from fake_host import FakeHost
from teacher_server import TeacherServer
from tokenizers import AddedToken
from trainers import preflight
from trainers.model import load_model_config, load_tokenizer
from trainers.teacher import compare_tokenizers, teacher_problems
from trainers.teacher_endpoint import EndpointTeacher, TeacherError

from tiny import CHATML, tiny_model, tiny_tokenizer

SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_context_tokens": None}
KEY = "sk-secret-123456"
IDS = [5, 17, 40, 5, 99, 12]
MASK = [0, 1, 1, 0, 1]  # of the completion: all but the first of IDS


@pytest.fixture(scope="module")
def model():
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 1024}
    return tiny_model(tiny_tokenizer(), end_rate=0, **shape)


@pytest.fixture
def server(model, tiny_folder):
    with TeacherServer(model, load_tokenizer(str(tiny_folder))) as running:
        yield running


def probed(server, **changes) -> tuple[EndpointTeacher, list[float]]:
    pauses: list[float] = []
    endpoint = EndpointTeacher(server.spec(**changes), api_key=KEY, sleep=pauses.append)
    endpoint.probe([1, 2, 3])
    server.requests.clear()
    endpoint.calls = endpoint.retries = 0
    return endpoint, pauses


def scored(endpoint) -> list:
    return endpoint.completion_logprobs([(IDS[:1], IDS[1:], MASK)])[0]


def expected(server) -> list:
    table = server.logprobs(IDS)
    return [
        table[place, token].item() if bit else None
        for place, (token, bit) in enumerate(zip(IDS[1:], MASK, strict=True))
    ]


# ------------------------------------------------------------------------------------------------- what is answered


@pytest.mark.parametrize("form", ["prompt_logprobs", "echo"])
def test_each_policy_token_gets_its_own_logprob_and_no_other_token_any(server, form):
    server.form = form
    endpoint, _ = probed(server)
    got = scored(endpoint)
    assert [each is None for each in got] == [not bit for bit in MASK]
    assert [each for each in got if each is not None] == pytest.approx([e for e in expected(server) if e is not None])
    assert (endpoint.calls, endpoint.retries, endpoint.tokens, endpoint.missing) == (1, 0, 3, 0)
    path, body, authorization = server.requests[0]
    assert path == "/v1/completions" and body["prompt"] == IDS and body["max_tokens"] == 1
    assert authorization == f"Bearer {KEY}"


def test_tk_13_the_sampled_token_is_looked_up_by_its_id_not_taken_as_the_first(server):
    endpoint, _ = probed(server)

    def other_first(answer):
        for place, entry in enumerate(answer["choices"][0]["prompt_logprobs"]):
            if entry is not None:
                own = entry[str(IDS[place])]
                rest = {token: value for token, value in entry.items() if token != str(IDS[place])}
                entry.clear()
                entry.update({"0": {"logprob": -0.001, "rank": 1}} | rest | {str(IDS[place]): own})
        return answer

    server.change = other_first
    assert scored(endpoint) == pytest.approx(expected(server))


def test_tk_12_null_nan_and_absent_tokens_are_none_and_counted(server):
    endpoint, _ = probed(server)

    def broken(answer):
        entries = answer["choices"][0]["prompt_logprobs"]
        entries[2] = None
        entries[3] = {"7": {"logprob": -0.5}}  # another token alone
        entries[5][str(IDS[5])]["logprob"] = float("nan")
        return answer

    server.change = broken
    assert scored(endpoint) == [None] * 5, "places 2, 3 and 5 of the prompt are the policy's"
    assert (endpoint.tokens, endpoint.missing) == (3, 3)
    server.change = lambda answer: answer
    assert None not in [each for each, bit in zip(scored(endpoint), MASK, strict=True) if bit]


@pytest.mark.parametrize("value", [None, "x", True, 3.5, -9999.0, float("-inf"), float("inf"), float("nan")])
def test_what_is_no_logprob_is_none(server, value):
    endpoint, _ = probed(server)

    def broken(answer):
        answer["choices"][0]["prompt_logprobs"][2][str(IDS[2])]["logprob"] = value
        return answer

    server.change = broken
    assert scored(endpoint)[1] is None and endpoint.missing == 1


def test_rows_keep_their_order_however_many_are_asked_at_a_time(server):
    endpoint, _ = probed(server, parallel=8)
    rows = [([1 + row], [row + 2, row + 3], [1, 1]) for row in range(20)]
    rows[7] = ([1], [2, 3], [0, 0])
    answers = endpoint.completion_logprobs(rows)
    for (prompt, completion, mask), got in zip(rows, answers, strict=True):
        table = server.logprobs(prompt + completion)
        wanted = [table[place, token].item() if mask[place] else None for place, token in enumerate(completion)]
        assert got == pytest.approx(wanted)
    assert endpoint.calls == 19, "a row without a policy token is not sent"


# ------------------------------------------------------------------------------------------------- how it can fail


def cut(handler, answer):
    data = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.connection.close()


def half_json(handler, answer):
    data = json.dumps(answer).encode()[:-20]
    handler.send_response(200)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def hang_up(handler, _answer):
    handler.connection.close()


@pytest.mark.parametrize("failure", [429, 500, 503, cut, half_json, hang_up])
def test_what_may_pass_is_tried_again(server, failure):
    endpoint, pauses = probed(server)
    server.plan = [failure, failure]
    assert scored(endpoint) == pytest.approx(expected(server))
    assert endpoint.retries == 2 and endpoint.calls == 1
    assert len(pauses) == 2 and 0.25 <= pauses[0] <= 0.5 and 0.5 <= pauses[1] <= 1


def test_a_pause_that_the_server_asks_for_is_kept_and_too_long_a_one_is_none(server):
    endpoint, pauses = probed(server)
    server.plan, server.headers = [429], {"retry-after": "7"}
    scored(endpoint)
    assert pauses == [7]
    server.plan, server.headers = [429], {"retry-after": "9000"}
    with pytest.raises(TeacherError, match="HTTP 429"):
        scored(endpoint)


@pytest.mark.parametrize(
    ("failure", "says"),
    [(500, "HTTP 500.*3 tries"), (cut, "cut off.*3 tries"), (half_json, "no whole JSON"), (hang_up, "3 tries")],
)
def test_what_does_not_pass_ends_in_one_sentence_without_the_key(server, failure, says):
    endpoint, _ = probed(server)
    server.plan = [failure] * 3
    with pytest.raises(TeacherError, match=says) as caught:
        scored(endpoint)
    assert KEY not in str(caught.value) and str(caught.value).startswith("The teacher's endpoint http://127.0.0.1")


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "Check LLM_API_KEY"), (404, "the model 'teacher'"), (400, "status 400"), (302, "LLM_BASE_URL")],
)
def test_what_cannot_pass_is_not_tried_again(server, status, says):
    endpoint, pauses = probed(server)
    server.plan, server.headers = [status], {"location": "http://127.0.0.1:9/elsewhere"}
    with pytest.raises(TeacherError, match=says) as caught:
        scored(endpoint)
    assert pauses == [] and len(server.requests) == 1 and KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda choice: {"choices": [choice, choice]}, "2 choices; expected one"),
        (lambda choice: {"choices": []}, "0 choices"),
        (lambda choice: {"error": "no"}, "no choices"),
        (lambda choice: {"choices": [{**choice, "prompt_logprobs": choice["prompt_logprobs"][:-1]}]}, "6 tokens.* 5 "),
        (lambda choice: {"choices": [{**choice, "prompt_logprobs": [None, *choice["prompt_logprobs"]]}]}, " 7 came"),
        (lambda choice: {"choices": [{**choice, "prompt_logprobs": None}]}, "none came back"),
    ],
)
def test_a_wrong_count_is_no_answer(server, change, says):
    endpoint, _ = probed(server)
    server.change = lambda answer: change(answer["choices"][0])
    with pytest.raises(TeacherError, match=says):
        scored(endpoint)


def test_a_server_that_is_gone_is_told_within_its_tries(server):
    endpoint, pauses = probed(server)
    server.close()
    begin = time.perf_counter()
    with pytest.raises(TeacherError, match=r"refused.*3 tries.*Check LLM_BASE_URL"):
        endpoint.completion_logprobs([(IDS[:1], IDS[1:], MASK)] * 6)
    assert time.perf_counter() - begin < 5 and pauses


def test_a_server_that_is_silent_meets_the_time_limit(server):
    endpoint, _ = probed(server, timeout_s=0.2, max_retries=1)
    server.plan = [lambda handler, answer: time.sleep(0.6)] * 2
    with pytest.raises(TeacherError, match=r"timed out.*2 tries"):
        scored(endpoint)


def test_a_requested_stop_ends_the_tries(server):
    stops = []
    endpoint = EndpointTeacher(server.spec(max_retries=9), stop_requested=lambda: bool(stops), sleep=stops.append)
    endpoint.probe([1, 2])
    server.plan = [500] * 9
    with pytest.raises(TeacherError, match="2 tries"):
        scored(endpoint)


def test_a_server_without_prompt_logprobs_is_no_teacher(server):
    server.form = "none"
    with pytest.raises(TeacherError, match=r"no log-probabilities of a prompt.*vllm serve teacher"):
        EndpointTeacher(server.spec()).probe([1, 2, 3])


# --------------------------------------------------------------------------------------------- before anything starts


@pytest.fixture
def request_of(tiny_folder):
    def build(**changes):
        request = {
            "recipe": "opd",
            "model": str(tiny_folder),
            "teacher": {"kind": "model", "model": str(tiny_folder)},
            "trainer": {},
            "sampling": SAMPLING,
            "lora": None,
            "chat_template_kwargs": {},
            "gold": [],
            "budgets": dict.fromkeys(("max_turn_tokens", "max_episode_tokens", "max_context_tokens", "max_length")),
        }
        return {**request, **changes}

    return build


def test_one_tokenizer_is_no_problem(request_of):
    assert preflight.run(request_of(), FakeHost())["problems"] == []


def longer():
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<extra>"])
    return tokenizer


def swapped():
    """Same tokens, two of them with each other's ids."""
    tokenizer = tiny_tokenizer()
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = data["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    tokenizer._tokenizer = tokenizer._tokenizer.from_str(json.dumps(data))
    return tokenizer


def split_otherwise():
    tokenizer = tiny_tokenizer()
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    data["model"]["merges"] = []
    tokenizer._tokenizer = tokenizer._tokenizer.from_str(json.dumps(data))
    return tokenizer


def ordinary_marker():
    tokenizer = tiny_tokenizer()
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    next(each for each in data["added_tokens"] if each["content"] == "<|im_start|>")["special"] = False
    tokenizer._tokenizer = tokenizer._tokenizer.from_str(json.dumps(data))
    return tokenizer


def with_bos():
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = AddedToken("<|endoftext|>", special=True, normalized=False)
    return tokenizer


def other_end():
    return tiny_tokenizer(template=CHATML.replace("<|im_end|>", "<|endoftext|>"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (longer, "id 308 is no token in the first and '<extra>' in the second (308 and 309 tokens)"),
        (swapped, "id 97 is 'a' in the first and 'b' in the second"),
        (lambda: tiny_tokenizer(straddle=True), "in the second"),
        (split_otherwise, "a probe text becomes other ids from token 0 on"),
        (ordinary_marker, "'<|im_start|>' (id"),
        (with_bos, "a text begins with None in the first and '<|endoftext|>' in the second"),
        (other_end, "an assistant's turn ends with '<|im_end|>' in the first and with '<|endoftext|>' in the second"),
    ],
)
def test_dt_13_tokenizers_that_differ_are_refused_with_both_names_and_the_first_difference(make, says):
    problems, _ = compare_tokenizers(tiny_tokenizer(), make(), "runs/student", "org/teacher")
    assert len(problems) == 1 and says in problems[0]
    assert "runs/student" in problems[0] and "org/teacher" in problems[0]


def test_pad_and_eos_may_differ_and_a_missing_template_is_told():
    teacher = tiny_tokenizer()
    teacher.pad_token = teacher.eos_token = "<|im_end|>"
    assert compare_tokenizers(tiny_tokenizer(), teacher, "a", "b") == ([], [])
    teacher.chat_template = None
    problems, warned = compare_tokenizers(tiny_tokenizer(), teacher, "a", "b")
    assert problems == [] and "b has no chat template" in warned[0]


def test_a_teacher_with_too_short_a_context_is_refused(request_of, tmp_path, tiny_folder):
    tokenizer = tiny_tokenizer()
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 512}
    tiny_model(tokenizer, end_rate=0, **shape).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    request = request_of(teacher={"kind": "model", "model": str(tmp_path)})
    assert load_model_config(str(tiny_folder)).max_position_embeddings == 1024
    problems, _ = teacher_problems(request)
    assert len(problems) == 1 and "takes 512 tokens, but an episode may come to 1024" in problems[0]
    assert "--max-context-tokens 512" in problems[0]
    assert teacher_problems({**request, "sampling": {**SAMPLING, "max_context_tokens": 512}}) == ([], [])


def test_an_endpoint_is_compared_by_its_own_tokenizer_by_tokenize_or_by_trust(
    request_of, server, tiny_folder, tmp_path
):
    other = tmp_path / "other"
    longer().save_pretrained(other)
    (other / "config.json").write_text((tiny_folder / "config.json").read_text())

    def problems_of(**changes):
        return teacher_problems(request_of(teacher=server.spec(**changes)))

    problems, warned = problems_of()
    assert problems == [] and "agree on a probe text" in warned[0]
    assert problems_of(tokenizer=str(tiny_folder)) == ([], [])
    assert "'<extra>'" in problems_of(tokenizer=str(other))[0][0]
    server.tokenizer = split_otherwise()
    problems, _ = problems_of()
    assert "probe text becomes other ids" in problems[0] and "api:teacher" in problems[0]

    server.has_tokenize = False
    problems, _ = problems_of()
    assert "could not be checked" in problems[0] and "--trust-teacher-tokenizer" in problems[0]
    problems, warned = problems_of(trust_tokenizer=True)
    assert problems == [] and "It is trusted" in warned[0]


def test_an_endpoint_is_asked_for_its_models_and_its_context(request_of, server):
    problems, _ = teacher_problems(request_of(teacher=server.spec(model="teachr")))
    assert "has no model 'teachr'; it lists teacher" in problems[0]
    server.max_model_len = 1024  # as long as the student's, but a token is generated behind it
    problems, _ = teacher_problems(request_of(teacher=server.spec()))
    assert "--max-context-tokens 1023" in problems[0]


def test_an_endpoint_that_is_not_there_is_a_problem_and_no_traceback(request_of, server):
    spec = server.spec(max_retries=0)
    server.close()
    result = preflight.run(request_of(teacher=spec), FakeHost())
    assert "refused" in result["problems"][0] and "LLM_BASE_URL" in result["problems"][0]


def test_the_key_comes_from_the_environment_and_is_in_no_problem(request_of, server, monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", KEY)
    teacher_problems(request_of(teacher=server.spec()))
    assert server.requests[0][2] == f"Bearer {KEY}"
    server.plan = [403]
    problems, _ = teacher_problems(request_of(teacher=server.spec()))
    assert "[LLM_API_KEY]" in problems[0] and KEY not in json.dumps(problems)


def test_the_server_of_these_tests_is_right(server, model):
    """What the stub answers is the model's own log-softmax."""
    logits = model(torch.tensor([IDS])).logits[0]
    answer = copy.deepcopy(server.completion({"prompt": IDS, "prompt_logprobs": 1}))
    entries = answer["choices"][0]["prompt_logprobs"]
    for place in range(1, len(IDS)):
        own = torch.log_softmax(logits[place - 1], -1)[IDS[place]].item()
        assert entries[place][str(IDS[place])]["logprob"] == pytest.approx(own)
