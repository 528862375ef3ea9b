"""A vLLM server as TRL uses it: whether it is there and fits, and completions over its HTTP endpoint.

TRL's own client hands the weights over. It does not sample for us: a call of it has one token budget and one seed for
all prompts, waits without a limit, and takes a minute of retries to notice that a server is gone.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

from trainers.model import UserError

Reply = tuple[list[int], list[float]]  # ids, and the logprob of each: NaN where vLLM gave none

CHECK_S = 3  # a server that is up says so at once
ATTEMPTS, PAUSE_S = 3, 0.5  # of a request that is refused or answered with 5xx; the pause doubles
TRANSIENT = (500, 502, 503, 504)
MOST_AT_ONCE = 256  # requests; vLLM's own default of sequences at a time


class ServerError(Exception):
    """No answer, or not the one that was asked for. `status`: HTTP's, None where none came."""

    def __init__(self, text: str, status: int | None = None, *, passing: bool = False):
        super().__init__(text)
        self.status = status
        self.passing = passing  # another try may help


def server_url(trainer: dict[str, Any]) -> str:
    """The address that TRL would take from the `trainer` block."""
    if url := trainer.get("vllm_server_base_url"):
        return str(url).rstrip("/")
    return f"http://{trainer.get('vllm_server_host', '0.0.0.0')}:{trainer.get('vllm_server_port', 8000)}"


def start_command(model: str, url: str) -> str:
    """How to start a server that serves `model` as TRL wants it; `trl vllm-serve` runs the same, and is deprecated."""
    port = url.rsplit(":", 1)[-1]
    return (
        f"VLLM_SERVER_DEV_MODE=1 vllm serve {shlex.quote(model)}{f' --port {port}' if port.isdecimal() else ''} "
        """--weight-transfer-config '{"backend": "nccl"}' --logprobs-mode processed_logprobs"""
    )


def call(url: str, payload: dict | None = None, timeout_s: float = CHECK_S) -> Any:
    """GET, or POST where there is a payload. The JSON that came back, None where nothing did.

    Raises ServerError: refused, silent for `timeout_s`, a status other than 200, or no JSON.
    """
    request = urllib.request.Request(url, headers={"Content-Type": "application/json"})
    if payload is not None:
        request.data = json.dumps(payload).encode()
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode("utf-8", "replace").strip()
        raise ServerError(
            f"status {error.code}{f': {said}' if said else ''}", error.code, passing=error.code in TRANSIENT
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            raise ServerError(f"no answer within {timeout_s:g} s") from error
        raise ServerError(str(reason) or type(reason).__name__, passing=True) from error
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        raise ServerError(f"an answer that is no JSON: {text[:200]!r}") from error


# ------------------------------------------------------------------------------------------------------ whether it fits


def server_problems(url: str, model: str, need: int | None) -> list[str]:
    """What keeps a server from sampling for `model`, found within seconds; [] where it fits.

    model: as the server has to serve it, a folder or a hub id. need: tokens of a whole context, None: not known.
    """
    start = f"Start one: {start_command(model, url)}"
    try:
        call(f"{url}/health")
        listed = call(f"{url}/v1/models")
    except ServerError as error:
        return [f"no vLLM server answers at {url} ({error}). {start}"]
    try:
        served = listed["data"][0]
        name, root, most = served["id"], served.get("root") or served["id"], served.get("max_model_len")
    except (TypeError, LookupError, AttributeError):
        return [f"what answers at {url} is no vLLM server: /v1/models says {json.dumps(listed)[:200]}. {start}"]

    problems = []
    if not any(_same_model(each, model) for each in (name, root)):
        problems.append(
            f"the vLLM server at {url} serves '{name}'; expected '{model}'. Serve that one: "
            f"{start_command(model, url)} (where the same weights lie under another path there, add "
            f"--served-model-name {shlex.quote(model)})."
        )
    if need is not None and most is not None and most < need:
        problems.append(
            f"the vLLM server at {url} takes contexts of {most} tokens; expected {need}. Set --max-context-tokens "
            f"{most}, or start it with --max-model-len {need}."
        )
    return problems + _setting_problems(url, model)


def _setting_problems(url: str, model: str) -> list[str]:
    """Settings that the weight sync and the importance ratios rest on."""
    restart = f"Start it so: {start_command(model, url)}"
    try:
        config = call(f"{url}/server_info?config_format=json")["vllm_config"]
    except (ServerError, TypeError, LookupError) as error:
        if getattr(error, "status", 404) == 404:
            return [
                f"the vLLM server at {url} does not show its development endpoints, which hand weights over. {restart}"
            ]
        return [f"the vLLM server at {url} does not tell its settings ({error}). {restart}"]
    problems = []
    if config.get("weight_transfer_config") is None:
        problems.append(f"the vLLM server at {url} has no weight-transfer engine. {restart}")
    mode = (config.get("model_config") or {}).get("logprobs_mode")
    if mode != "processed_logprobs":
        problems.append(
            f"the vLLM server at {url} runs with --logprobs-mode {mode}; expected processed_logprobs, the logprobs of "
            f"what is sampled from. {restart}"
        )
    return problems


def _same_model(served: str, model: str) -> bool:
    if served == model:
        return True
    one, other = Path(served).expanduser(), Path(model).expanduser()
    return one.exists() and other.exists() and one.resolve() == other.resolve()


# ---------------------------------------------------------------------------------------------------------- completions


class ServerEngine:
    """Completions of a server. Safe to use from each process: it knows of no other."""

    def __init__(self, url: str, model: str, timeout_s: float):
        """model: for the command that a message tells. timeout_s: for one reply, from request to answer."""
        self.url, self.model, self.timeout_s = url, model, timeout_s
        try:
            self.served = call(f"{url}/v1/models")["data"][0]["id"]
        except ServerError as error:
            raise UserError(self._gone(error)) from error

    def complete(self, requests: Sequence[tuple[list[int], dict[str, Any]]]) -> list[Reply]:
        """A reply for each (context, sampling parameters of vLLM), all at once, in the same order.

        Raises UserError where the server is gone, refuses, or returns something else than one reply a request.
        """
        pool = ThreadPoolExecutor(min(len(requests), MOST_AT_ONCE))
        try:
            return list(pool.map(self._one, requests))
        except ServerError as error:
            raise UserError(self._gone(error)) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def alive(self) -> None:
        """Raises UserError unless the server answers."""
        try:
            call(f"{self.url}/health")
        except ServerError as error:
            raise UserError(self._gone(error)) from error

    def _one(self, request: tuple[list[int], dict[str, Any]]) -> Reply:
        context, params = request
        payload = {
            "model": self.served,
            "prompt": [context],
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **params,
        }
        answer = self._post("/v1/completions", payload)
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or len(choices) != 1:
            count = len(choices) if isinstance(choices, list) else "no list of them"
            raise ServerError(f"1 completion asked, {count} returned")
        return read_choice(choices[0])

    def _post(self, path: str, payload: dict) -> Any:
        """Tries again what may pass. A request has its own seed, so that a second one gives the same reply."""
        for attempt in range(ATTEMPTS):
            try:
                return call(self.url + path, payload, self.timeout_s)
            except ServerError as error:
                if attempt == ATTEMPTS - 1 or not error.passing:
                    raise
                time.sleep(PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")

    def _gone(self, error: ServerError) -> str:
        if error.status is not None and error.status < 500:
            return f"the vLLM server at {self.url} refuses to sample ({error})."
        return (
            f"the vLLM server at {self.url} does not sample any more ({error}). Look into its log, start it again "
            f"({start_command(self.model, self.url)}), and the run. Where replies take longer than "
            f"{self.timeout_s:g} s, raise --vllm-server-timeout."
        )


def read_choice(choice: dict[str, Any]) -> Reply:
    """Ids and logprobs of a choice of /v1/completions. A logprob is looked up by the id that was sampled.

    Where the server gave none for it (null, NaN, another token's only) it is NaN.
    """
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise ServerError("a completion without token_ids came back: the server's vLLM is too old for return_token_ids")
    given = choice.get("logprobs") or {}
    tokens, values, tops = (given.get(name) or [] for name in ("tokens", "token_logprobs", "top_logprobs"))

    def logprob(place: int, token_id: int) -> float:
        name = f"token_id:{token_id}"
        value = values[place] if place < len(values) and tokens[place : place + 1] == [name] else None
        if value is None and place < len(tops):
            value = (tops[place] or {}).get(name)
        return math.nan if value is None else float(value)

    return ids, [logprob(place, token_id) for place, token_id in enumerate(ids)]


# ---------------------------------------------------------------------------------------------------------- weight sync

WATCH_S, SILENT_CHECKS = 5, 3


def watched_sync(sync: Callable[[], None], engine: ServerEngine, timeout_s: float) -> Callable[[], None]:
    """TRL's weight sync, which broadcasts by NCCL and would wait for ever for a server that died meanwhile.

    Raises UserError where the server is gone before it begins. Where it goes silent, or is not done within `timeout_s`,
    in the middle, nothing can be raised into the broadcast: the process ends, with a sentence on stderr.
    """

    def run() -> None:
        engine.alive()
        done = threading.Event()
        watch = threading.Thread(target=_watch, args=(done, engine, timeout_s), daemon=True)
        watch.start()
        try:
            sync()
        finally:
            done.set()
            watch.join()

    return run


def _watch(done: threading.Event, engine: ServerEngine, timeout_s: float) -> None:
    silent, begun = 0, time.monotonic()
    while not done.wait(WATCH_S):
        try:
            engine.alive()
            silent = 0
            if time.monotonic() - begun < timeout_s:
                continue
            reason = f"the vLLM server at {engine.url} has not taken the weights within {timeout_s:g} s."
        except UserError as error:
            silent += 1
            if silent < SILENT_CHECKS:
                continue
            reason = f"{error}"
        if not done.is_set():
            print(f"UserError: {reason}", file=sys.stderr, flush=True)
            os._exit(1)
        return
