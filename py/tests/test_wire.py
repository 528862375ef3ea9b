"""The codec's Python half and the Host. What needs a real Node beside it is in src/bridge/*.test.ts."""

import json
import math
import threading

import numpy as np
import pytest
import torch
from trainers import wire
from trainers.wire import Host, HostError, decode, encode


def same(left, right):
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**53) + 1,
        1e30,
        0.1,
        "ü🙂\n\x00",
        [],
        {},
        [1.0, math.nan, math.inf, -math.inf],
        {"loss": math.nan, "nested": [{"x": -math.inf}]},
        {"$float": "NaN"},
        {"$float": {"$float": "NaN"}},
        {"$float": "NaN", "x": 1},
        {"$float": [1, {"$float": "other"}]},
    ],
)
def test_comes_back_as_it_was(value):
    assert same(decode(encode(value)), value)


def test_br05_the_text_is_json_without_bare_nan():
    text = encode({"loss": math.inf, "grad_norm": math.nan})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "loss": {"$float": "Infinity"},
        "grad_norm": {"$float": "NaN"},
    }


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.float64("nan"), math.nan),
        (torch.tensor([1.5, math.inf]), [1.5, math.inf]),
        (torch.tensor(7), 7),
        (torch.tensor([0.5], dtype=torch.bfloat16), [0.5]),
        (np.bool_(True), True),
    ],
)
def test_arrays_and_tensors_become_lists(value, plain):
    assert same(decode(encode(value)), plain)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"ids": [1, 2**53]}, r"sft\.ids\[1\] is 9007199254740992, beyond 2\^53"),
        ({"rows": [{1, 2}]}, r"sft\.rows\[0\] is a set"),
        ({"model": object()}, r"sft\.model is a object"),
        ({"parts": {1: 0.5}}, r"sft\.parts has the key 1, a int"),
        ({"f": len}, r"sft\.f is a builtin_function_or_method"),
        (b"bytes", r"sft is a bytes"),
        (np.array([2**60]), r"sft\[0\] is 1152921504606846976"),
    ],
)
def test_br09_refused_with_its_path(value, message):
    with pytest.raises(TypeError, match=message):
        encode(value, "sft")


def test_br26_too_long_for_one_crossing():
    with pytest.raises(ValueError, match=r"sft is 64 MiB as JSON.*file's path"):
        encode("x" * wire.MAX_TEXT_LENGTH, "sft")


@pytest.mark.parametrize("text", ['{"$float": "nan"}', '{"$float": 1}', '{"$float": null}'])
def test_decode_refuses_what_is_no_number(text):
    with pytest.raises(ValueError, match="is no number"):
        decode(text)


def test_br23_half_a_surrogate_pair_is_replaced_and_counted():
    before = wire.replaced_surrogates()
    assert decode(encode({"k\udc00": "a\ud83dz 🙂"})) == {"k\ufffd": "a\ufffdz 🙂"}
    assert decode('"a\\ud83dz"') == "a\ufffdz"
    assert wire.replaced_surrogates() - before == 3
    assert wire.well_formed("\ud83d\ude42") == "🙂"  # two halves that belong together
    assert wire.replaced_surrogates() - before == 3


def host_answering(*replies):
    """A host whose TypeScript gives `replies` in turn; what it asked is in the list."""
    asked, remaining = [], list(replies)

    def crossing(op, text, round_trip_ms):
        asked.append((op, decode(text)))
        reply = remaining.pop(0) if remaining else {"ok": True, "result": {}}
        return reply if isinstance(reply, str) or reply is None else encode(reply)

    return Host(crossing), asked


def test_ask_gives_the_answer_and_counts():
    host, asked = host_answering({"ok": True, "result": {"reward": [0.5, math.nan]}, "handler_ms": 0.25})
    reward = host.ask("finish", {"handle": 1})["reward"]
    assert reward[0] == 0.5
    assert math.isnan(reward[1])  # BR-06: never None
    assert asked == [("finish", {"handle": 1})]
    assert host.callbacks == 1
    assert host.handler_ms == 0.25
    assert host.crossing_ms == host.round_trip_ms - 0.25


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"ok": False, "error": {"message": "no such task"}}, "^no such task$"),
        (None, "no envelope: 'None'"),  # a callback that returned nothing
        ("", "no envelope"),
        ("not json", "no envelope: 'not json'"),
        ({"result": {}}, "no envelope"),
        ("[1]", "no envelope"),
        ({"ok": True, "result": [1]}, "The answer to 'step' is a list; expected an object"),
    ],
)
def test_failure_and_nonsense_raise_host_error(reply, message):
    host, _ = host_answering(reply)
    with pytest.raises(HostError, match=message):
        host.ask("step", {})


def test_the_stop_mark_of_any_answer_is_seen_even_where_it_failed():
    host, _ = host_answering({"ok": False, "error": {"message": "x"}, "stop": True})
    assert not host.polls_stop
    assert not host.stop_requested
    assert host.polls_stop
    with pytest.raises(HostError):
        host.ask("step", {})
    assert host.stop_requested


def in_thread(work):
    caught = []

    def run():
        try:
            work()
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    thread.join()
    return caught


def test_br13_only_the_main_thread_asks():
    host, asked = host_answering()
    [error] = in_thread(lambda: host.ask("step", {}))
    assert isinstance(error, RuntimeError)
    assert "host.ask('step') from thread 'worker'" in str(error)
    assert asked == []


def test_br13_a_threads_log_waits_for_the_main_thread():
    host, asked = host_answering()
    assert in_thread(lambda: host.log(3, {"loss": 0.5})) == []
    assert in_thread(lambda: host.note("hello")) == []
    assert asked == []
    host.ask("step", {})
    assert asked == [("log", {"step": 3, "metrics": {"loss": 0.5}}), ("note", {"text": "hello"}), ("step", {})]
    in_thread(lambda: host.note("the last"))
    host.close()
    assert asked[-1] == ("note", {"text": "the last"})
    [error] = in_thread(lambda: host.note("too late"))
    assert isinstance(error, HostError)
    with pytest.raises(HostError, match="the call it belongs to is over"):
        host.ask("step", {})


def test_a_payload_that_cannot_cross_is_named():
    host, asked = host_answering()
    with pytest.raises(TypeError, match=r"step\.episodes\[0\]\.reply is a set"):
        host.ask("step", {"episodes": [{"reply": set()}]})
    assert asked == []


def call(entry, request=None):
    return decode(wire.handle(encode({"entry": entry, "request": request or {}})))


def test_handle_never_raises(tmp_path, monkeypatch):
    (tmp_path / "an_entry.py").write_text(
        "import os\n"
        "def run(request, host): return {'got': request}\n"
        "def fail(request, host): raise KeyError('task_id')\n"
        "def interrupted(request, host): raise KeyboardInterrupt\n"
        "def needs(request, host): import nothing_like_this.at_all\n"
        "def nan(request, host): return {'loss': float('nan')}\n"
        "def bad(request, host): return {'rows': [object()]}\n"
    )
    (tmp_path / "broken_entry.py").write_text("def run(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert call("an_entry:run", {"a": 1})["result"] == {"got": {"a": 1}}
    assert math.isnan(call("an_entry:nan")["result"]["loss"])
    for entry, kind, message in [
        ("an_entry:fail", "KeyError", "'task_id'"),
        ("an_entry:interrupted", "KeyboardInterrupt", ""),
        ("an_entry:nowhere", "AttributeError", "module 'an_entry' has no attribute 'nowhere'"),
        ("an_entry:bad", "TypeError", "an_entry:bad.rows[0] is a object"),
        ("broken_entry:run", "SyntaxError", "invalid syntax"),
    ]:
        reply = call(entry)
        assert reply["ok"] is False
        assert reply["error"]["type"] == kind
        assert message in reply["error"]["message"]
        assert "Traceback" in reply["error"]["traceback"]
    assert call("an_entry:needs")["error"]["missing"] == "nothing_like_this"
    assert call("no_such_entry")["error"]["missing"] == "trainers.no_such_entry"
