"""The teacher of on-policy distillation: held against the student before anything starts, and loaded.

The student's ids are the only text there is: the teacher reads them as they are, prompt, observations and all. So both
must mean the same by every id.
"""

from __future__ import annotations

import os
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trainers.chat_templates import template_kwargs
from trainers.model import (
    UserError,
    check_weights,
    context_limit,
    load_model_config,
    load_policy,
    load_tokenizer,
)
from trainers.teacher_endpoint import EndpointTeacher, TeacherError
from trainers.tokens import ChatFormat

# Enough kinds of text that tokenizers which split differently are found out.
PROBE = (
    'Thought: search_papers, then 3.14159 of 2024-11-05?\nAction: {"name": "read_pdf", "args": {"index": 12}}\n\n'
    "  def f(x):\n\treturn x**2  # naïve café, 数据 и данные, 🙂👍🏽 e\u0301 don't I'LL\r\n"
)


def teacher_problems(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What keeps `request["teacher"]` from teaching `request["model"]`, and what could not be made sure of.

    `request` has what the entries `preflight` and `opd` share: model, teacher, trainer, sampling, chat_template,
    chat_template_kwargs.
    No weights are read. An endpoint is asked for the log-probabilities of a short text. Raises UserError where a model
    is not there.
    """
    teacher, sampling = request["teacher"], request["sampling"]
    problems, warned = [], []
    if sampling["temperature"] <= 0:
        problems.append("temperature is 0: teacher and student are compared at the temperature. Set it above 0.")
    if teacher["kind"] == "api":
        problems += _sampled_problems(request["trainer"], sampling)
    if problems:
        return problems, warned

    student = load_tokenizer(request["model"])
    student_config = load_model_config(request["model"])
    limits = [limit for limit in (context_limit(student_config), sampling["max_context_tokens"]) if limit is not None]
    need = min(limits) if limits else None
    found, noted = (_local_problems if teacher["kind"] == "model" else _endpoint_problems)(
        request, student, student_config, need
    )
    return problems + found, warned + noted


def load_teacher(request: dict[str, Any]) -> PreTrainedModel:
    """The local teacher, frozen, in the hardware's precision, with as many logits as the student has.

    Models of one family pad their output layers to different widths (Qwen2.5: 151,936 and 152,064 rows for 151,665
    tokens). Rows beyond the tokenizer's are never trained, so the teacher's surplus is cut off.
    """
    teacher = request["teacher"]["model"]
    # The student's template: what the teacher reads is the student's dialogue.
    template = load_tokenizer(request["model"]).chat_template
    kwargs = {"chat_template": template, **template_kwargs(request)}
    asked = {**request, "model": teacher, "lora": None, "chat_template": None, "chat_template_kwargs": kwargs}
    policy = load_policy(asked, training=False)
    model: Any = policy.model
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    width = load_model_config(request["model"]).get_text_config().vocab_size
    if model.config.get_text_config().vocab_size != width:
        model.resize_token_embeddings(width)
    return model.eval().requires_grad_(False)


def open_endpoint(teacher: dict[str, Any], **options: Any) -> EndpointTeacher:
    """The endpoint, with the key of LLM_API_KEY."""
    return EndpointTeacher(teacher, api_key=os.environ.get("LLM_API_KEY", ""), **options)


def _sampled_problems(trainer: dict[str, Any], sampling: dict[str, Any]) -> list[str]:
    """An endpoint tells the sampled tokens' log-probabilities alone, at temperature 1: what needs more is refused."""
    problems = []
    off = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}
    for name, value in off.items():
        if sampling[name] != value:
            problems.append(
                f"{name} is {sampling[name]}: an endpoint scores at temperature 1 the tokens that were drawn, so they "
                f"must be drawn from the student's own distribution. Set --{name.replace('_', '-')} {value}, or take a "
                f"local teacher (model:…)."
            )
    if trainer.get("beta", 1.0) != 1.0:
        problems.append(
            f"trainer.beta is {trainer['beta']}: from sampled tokens' log-probabilities only the reverse KL (beta 1) "
            f"can be estimated. Leave beta out, or take a local teacher (model:…)."
        )
    return problems


def _local_problems(request, student, student_config, need: int | None) -> tuple[list[str], list[str]]:
    name = request["teacher"]["model"]
    tokenizer, config = load_tokenizer(name), load_model_config(name)
    check_weights(name)
    problems, warned = compare_tokenizers(student, tokenizer, request["model"], name, template_kwargs(request))
    rows = [each.get_text_config().vocab_size for each in (student_config, config)]
    if not problems and rows[1] < rows[0]:
        problems.append(
            f"the output layer of the teacher ({name}) has {rows[1]} rows, the student's ({request['model']}) "
            f"{rows[0]}: for the last ones it has no probability. Take a teacher with at least as many."
        )
    return problems + _context_problems(f"the teacher ({name})", context_limit(config), need, spare=0), warned


def _endpoint_problems(request, student, _student_config, need: int | None) -> tuple[list[str], list[str]]:
    teacher = request["teacher"]
    problems, warned = [], []
    own_name, name = teacher["tokenizer"], f"api:{teacher['model']}"
    endpoint = open_endpoint(teacher)
    ids = student.encode(PROBE, add_special_tokens=False)
    try:
        listed, limit = endpoint.listed_model()
        if listed and teacher["model"] not in listed:
            some = ", ".join(listed[:8])
            return [f"the endpoint {teacher['base_url']} has no model '{teacher['model']}'; it lists {some}."], []
        endpoint.probe(ids)
        if own_name is not None:
            found, noted = compare_tokenizers(
                student, load_tokenizer(own_name), request["model"], own_name, template_kwargs(request)
            )
            problems += found
            warned += noted
        if own_name is None or limit is None:
            text = PROBE + "".join(token.content for token in student.added_tokens_decoder.values())
            answer = endpoint.tokenize(text)
            limit = limit or (answer[1] if answer else None)
            if own_name is None and answer is not None:
                difference = _first_difference(student.encode(text, add_special_tokens=False), answer[0])
                if difference is not None:
                    problems.append(_differ(request["model"], name, f"a probe text becomes {difference}"))
                else:
                    warned.append(
                        f"the tokenizers of {request['model']} and {name} agree on a probe text; name the teacher's "
                        f"tokenizer (--teacher-tokenizer FOLDER) to have every token compared."
                    )
            elif own_name is None:
                text = (
                    f"whether {name} has the student's tokenizer ({request['model']}) could not be checked: the "
                    f"endpoint has no /tokenize."
                )
                if teacher["trust_tokenizer"]:
                    warned.append(f"{text} It is trusted (--trust-teacher-tokenizer).")
                else:
                    problems.append(
                        f"{text} Name its tokenizer (--teacher-tokenizer FOLDER or hub id), or say that it is the same "
                        f"(--trust-teacher-tokenizer)."
                    )
    except TeacherError as error:
        return [str(error)], []
    # It generates a token behind the ones it scores.
    return problems + _context_problems(f"the teacher ({name})", limit, need, spare=1), warned


def _context_problems(who: str, limit: int | None, need: int | None, spare: int) -> list[str]:
    if limit is None or need is None or need + spare <= limit:
        return []
    return [
        f"{who} takes {limit} tokens, but an episode may come to {need}. Set --max-context-tokens {limit - spare}, or "
        f"take a teacher with a longer context."
    ]


# ------------------------------------------------------------------------------------------------------ tokenizers


def compare_tokenizers(
    student: PreTrainedTokenizerBase,
    teacher: PreTrainedTokenizerBase,
    student_name: str,
    teacher_name: str,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Problems (the first difference, with both names) and warnings.

    Compared: every id and its token, which ids are special, the token that begins a text, the token that ends an
    assistant's turn in each one's own chat template, and the ids of a probe text. Not compared: the pad token, which
    nobody reads, and the eos token, which a base model and the chat model made from it name differently; a turn ends
    with the template's own.
    """
    difference = _vocabulary_difference(student, teacher)
    difference = difference or _special_difference(student, teacher)
    if difference is None and student.bos_token_id != teacher.bos_token_id:
        difference = f"a text begins with {student.bos_token!r} in the first and {teacher.bos_token!r} in the second"
    if difference is None:
        ids = [each.encode(PROBE, add_special_tokens=False) for each in (student, teacher)]
        if unequal := _first_difference(*ids):
            difference = f"a probe text becomes {unequal}"
    if difference is not None:
        return [_differ(student_name, teacher_name, difference)], []
    return _end_of_turn(student, teacher, student_name, teacher_name, chat_template_kwargs or {})


def _differ(student: str, teacher: str, difference: str) -> str:
    return (
        f"the tokenizers of the student ({student}) and the teacher ({teacher}) differ: {difference}. The teacher "
        f"would score other text than the student wrote. Take a teacher with the student's tokenizer."
    )


def _vocabulary_difference(student, teacher) -> str | None:
    tokens = [{index: token for token, index in each.get_vocab().items()} for each in (student, teacher)]
    if tokens[0] == tokens[1]:
        return None
    first = min(index for index in tokens[0].keys() | tokens[1].keys() if tokens[0].get(index) != tokens[1].get(index))
    shown = [repr(each[first]) if first in each else "no token" for each in tokens]
    sizes = f"{len(tokens[0])} and {len(tokens[1])} tokens"
    return f"id {first} is {shown[0]} in the first and {shown[1]} in the second ({sizes})"


def _special_difference(student, teacher) -> str | None:
    special = [
        {index for index, token in each.added_tokens_decoder.items() if token.special} for each in (student, teacher)
    ]
    if special[0] == special[1]:
        return None
    first = min(special[0] ^ special[1])
    which = "first" if first in special[0] else "second"
    return f"{student.convert_ids_to_tokens(first)!r} (id {first}) is a special token in the {which} only"


def _first_difference(student: list[int], teacher: list[int]) -> str | None:
    if student == teacher:
        return None
    pairs = zip(student, teacher, strict=False)
    place = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(student), len(teacher)))
    first, second = student[place : place + 3], teacher[place : place + 3]
    return f"other ids from token {place} on ({first} and {second}; {len(student)} and {len(teacher)} tokens)"


def _end_of_turn(student, teacher, student_name: str, teacher_name: str, kwargs: dict[str, Any]):
    if teacher.chat_template is None:
        return [], [f"{teacher_name} has no chat template: whether it ends turns as {student_name} is not checked."]
    try:
        own = {key: value for key, value in kwargs.items() if key != "chat_template"}  # that one is the student's
        ends = [
            ChatFormat(student, kwargs, observation_role=None).end_id,
            ChatFormat(teacher, own, observation_role=None).end_id,
        ]
    except ValueError as error:
        raise UserError(f"{student_name} and {teacher_name}: {error}") from error
    if ends[0] == ends[1]:
        return [], []
    shown = [repr(student.convert_ids_to_tokens(end)) for end in ends]
    difference = f"an assistant's turn ends with {shown[0]} in the first and with {shown[1]} in the second"
    return [_differ(student_name, teacher_name, f"by their chat templates {difference}")], []
