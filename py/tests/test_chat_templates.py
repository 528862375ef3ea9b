"""Tools through the chat template: our Hermes template, Qwen2.5's, templates that ignore tools, and the masks."""

import pytest
from trainers.chat_templates import read_template, template_kwargs
from trainers.model import UserError, chat_format, load_policy
from trainers.tokens import ChatFormat, ChatTemplateError, transcript_of
from transformers import AutoTokenizer
from trl import chat_template_utils

from tiny import CHATML, tiny_tokenizer

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks up a {name}, a café's too.",
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        },
    }
    for name in ("user", "flight")
]
CALL = {"type": "function", "function": {"name": "user", "arguments": {"id": "é <1>", "amount": 100.0, "deep": [{}]}}}
SYSTEM = {"role": "system", "content": "You help."}
USER = {"role": "user", "content": "Find it."}
DIALOGUES = {
    "a question": [SYSTEM, USER],
    "no system message": [USER],
    "calls, pairs of results, a customer's turn": [
        SYSTEM,
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two\n"},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "content": "three"},
        USER,
        {"role": "assistant", "content": "Done."},
    ],
}
QWEN2_5 = chat_template_utils.qwen2_5_chat_template
OWN_DEFAULT, QWENS_DEFAULT = "You are a helpful assistant.", "You are Qwen, created by Alibaba Cloud. "


@pytest.mark.parametrize("generation_prompt", [False, True])
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("what", DIALOGUES)
def test_hermes_writes_what_qwen2_5_writes_but_for_the_default_system_text(what, tools, generation_prompt):
    texts = [
        tiny_tokenizer(template=template).apply_chat_template(
            DIALOGUES[what], tools=tools, tokenize=False, add_generation_prompt=generation_prompt
        )
        for template in (read_template("hermes"), QWEN2_5)
    ]
    assert texts[0] == texts[1].replace(QWENS_DEFAULT, "")
    assert (OWN_DEFAULT in texts[0]) == (what == "no system message")


def test_the_text_of_7_2():
    text = tiny_tokenizer(template=read_template("hermes")).apply_chat_template(
        DIALOGUES["calls, pairs of results, a customer's turn"], tools=TOOLS[:1], tokenize=False
    )
    assert text == (
        "<|im_start|>system\nYou help.\n\n# Tools\n\nYou may call one or more functions to assist with the user query."
        "\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
        '{"type": "function", "function": {"name": "user", "description": "Looks up a user, a café\'s too.", '
        '"parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}}\n</tools>\n\n'
        "For each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
        "</tool_call><|im_end|>\n"
        "<|im_start|>user\nFind it.<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "user", "arguments": {"id": "é <1>", "amount": 100.0, '
        '"deep": [{}]}}\n</tool_call>\n<tool_call>\n{"name": "user", "arguments": {"id": "é <1>", "amount": 100.0, '
        '"deep": [{}]}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n\n</tool_response><|im_end|>\n"
        '<|im_start|>assistant\nI look.\n<tool_call>\n{"name": "user", "arguments": {"id": "é <1>", "amount": 100.0, '
        '"deep": [{}]}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nthree\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nFind it.<|im_end|>\n<|im_start|>assistant\nDone.<|im_end|>\n"
    )


# -------------------------------------------------------------------------------------------------------- masks

# As an airline's episode goes: a call, a pair of results, a word to the customer, whose answer ends in another call.
REPLIES = [
    'I look.\n<tool_call>\n{"name": "user", "arguments": {"id": "a"}}\n</tool_call>',
    "\nWhich flight, €é?",
    '<tool_call>\n{"name": "flight", "arguments": {"id": "b"}}\n</tool_call>',
]
OBSERVATIONS = [
    [{"role": "tool", "content": '{"name": "Mia"}\n'}, {"role": "tool", "content": "Error: <tool_call> unknown"}],
    [{"role": "user", "content": "\nThe one at noon.<|im_end|>"}],
]
BETWEEN = [
    '\n<|im_start|>user\n<tool_response>\n{"name": "Mia"}\n\n</tool_response>\n<tool_response>\n'
    "Error: <tool_call> unknown\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    "\n<|im_start|>user\n\nThe one at noon.<|im_end|><|im_end|>\n<|im_start|>assistant\n",
]


@pytest.mark.parametrize("template", [read_template("hermes"), QWEN2_5], ids=["hermes", "qwen2.5"])
@pytest.mark.parametrize("straddle", [False, True])
def test_the_invariants_of_7_5_on_three_turns(straddle, template):
    tokenizer = tiny_tokenizer(straddle, template)
    chat = ChatFormat(tokenizer, tools=TOOLS)
    turns = [
        {"reply": reply, "observations": observations}
        for reply, observations in zip(REPLIES, [*OBSERVATIONS, []], strict=True)
    ]
    transcript = transcript_of({"prompt": [SYSTEM, USER], "turns": turns}, chat)
    ids, mask = transcript.completion_ids, transcript.env_mask

    prompt = tokenizer.apply_chat_template([SYSTEM, USER], tools=TOOLS, tokenize=False, add_generation_prompt=True)
    assert chat.tokenizer.decode(transcript.prompt_ids) == prompt
    assert len(ids) == len(mask) == len(transcript.logprobs) and mask[0] == 1
    runs: list[tuple[int, list[int]]] = []
    for index, bit in zip(ids, mask, strict=True):
        if not runs or runs[-1][0] != bit:
            runs.append((bit, []))
        runs[-1][1].append(index)
    assert [bit for bit, _ in runs] == [1, 0, 1, 0, 1]
    texts = [tokenizer.decode(run) for _, run in runs]
    assert texts[::2] == [f"{reply}<|im_end|>" for reply in REPLIES]
    assert texts[1::2] == BETWEEN
    end, newline = chat.end_id, tokenizer.encode("\n", add_special_tokens=False)[0]
    for _, run in runs[::2]:
        assert run[-1] == end and run.count(end) == 1
    for _, run in runs[1::2]:  # the newline that follows the end token is the environment's, and a token of its own
        assert run[0] == newline and run.count(end) == 1

    whole = [SYSTEM, USER]
    for turn in turns:
        whole += [{"role": "assistant", "content": turn["reply"]}, *turn["observations"]]
    text = tokenizer.apply_chat_template(whole, tools=TOOLS, tokenize=False)
    assert prompt + "".join(texts) + "\n" == text, "training reads what serving renders"


def test_control_markers_in_a_tools_description_are_text():
    tools = [{"type": "function", "function": {"name": "f", "description": "Say <|im_end|>.", "parameters": {}}}]
    chat = ChatFormat(tiny_tokenizer(template=read_template("hermes")), tools=tools)
    assert chat.prompt_ids([USER]).count(chat.end_id) == 2
    assert "Say <|im_end|>." in chat.tokenizer.decode(chat.prompt_ids([USER]))


# ------------------------------------------------------------------------------------------------------- refusals


def test_a_template_that_ignores_tools_is_refused_with_the_switch_that_helps():
    with pytest.raises(ChatTemplateError, match=r"does not write the tools .*--chat-template hermes"):
        ChatFormat(tiny_tokenizer(), tools=TOOLS)
    with pytest.raises(ChatTemplateError, match="--chat-template hermes"):
        ChatFormat(tiny_tokenizer(), tools=TOOLS, observation_role=None)
    for tools in (None, []):
        ChatFormat(tiny_tokenizer(), tools=tools)


def test_the_append_only_probe_runs_with_the_tools():
    forgetful = CHATML.replace(
        "{{ message.content }}", "{{ '' if tools and loop.first and messages | length > 4 else message.content }}"
    )
    tokenizer = tiny_tokenizer(template="{{ tools | length if tools else '' }}" + forgetful)
    ChatFormat(tokenizer)
    with pytest.raises(ChatTemplateError, match="not append-only"):
        ChatFormat(tokenizer, tools=TOOLS)


def test_a_tokenizer_with_several_templates_takes_the_one_for_tools():
    tokenizer = tiny_tokenizer(template={"default": CHATML, "tool_use": QWEN2_5})
    assert '"name": "flight"' in tokenizer.decode(ChatFormat(tokenizer, tools=TOOLS).prompt_ids([USER]))


# --------------------------------------------------------------------------------------------------- chat_template


def test_a_file_takes_the_templates_place_and_is_saved_with_the_model(tiny_folder, tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text(read_template("hermes").replace("You may call", "Call"))
    request = {"model": str(tiny_folder), "seed": 0, "tools": TOOLS}
    with pytest.raises(UserError, match=f"{tiny_folder}: the chat template does not write the tools"):
        load_policy(request)
    policy = load_policy({**request, "chat_template": str(path)})
    assert "Call one or more" in policy.tokenizer.decode(policy.chat.prompt_ids([USER]))
    policy.tokenizer.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").chat_template == path.read_text()


def test_the_continuation_style_has_tools_in_its_prompt(tiny_folder):
    texts = {"separator": "\n", "opening": "Thought:", "stop": "Observation:"}
    request = {"model": str(tiny_folder), "chat_template": "hermes", "tools": TOOLS, "continuation": texts}
    tokenizer = tiny_tokenizer()
    assert '"name": "flight"' in tokenizer.decode(chat_format(request, tokenizer).prompt_ids([USER]))


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"chat_template": "hermse"}, "'hermse': there is no such file. Expected hermes, or the path of a .jinja"),
        ({"chat_template": "/dev/null"}, "an empty file"),
        ({"chat_template": "hermes", "chat_template_kwargs": {"chat_template": "x"}}, "has a chat_template too"),
    ],
)
def test_a_chat_template_that_is_none(request_, says):
    with pytest.raises(UserError, match=says):
        template_kwargs(request_)


def test_other_template_switches_go_with_it():
    request = {"chat_template": "hermes", "chat_template_kwargs": {"a": 1}}
    assert template_kwargs(request) == {"a": 1, "chat_template": read_template("hermes")}
    assert template_kwargs({"chat_template": None, "chat_template_kwargs": {"a": 1}}) == {"a": 1}
    assert template_kwargs({}) == {}
