"""A teacher behind HTTP: log-probabilities of tokens that are already there, from an OpenAI-compatible server.

Two wire forms are read. vLLM's: `prompt_logprobs` of /v1/completions, a map from token id to log-probability a token.
The older one of OpenAI's completions, which SGLang and others still have: `echo` with `logprobs`, a number a token.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 30.0
LONGEST_PAUSE_S = 300.0  # a server that wants a longer one is out of budget for this run
SHORTEST_SECRET = 8  # shorter keys are placeholders for local servers, as "EMPTY"
SAID_CHARACTERS = 300  # of what a server says in an error
# vLLM writes −9999 where a token has no probability at all: minus infinity is no JSON.
LEAST_LOGPROB = -9998.0

Logprobs = list[float | None]


class TeacherError(RuntimeError):
    """The endpoint gives no log-probabilities, each try of it. The message is whole, and holds no key."""


class _MayPass(Exception):
    """A failure that another try may not meet."""

    def __init__(self, message: str, retry_after_s: float | None = None):
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EndpointTeacher:
    """Asks one model of one server, a sequence a request, several of them at a time, and counts.

    `teacher` has `base_url` (mostly ends in /v1), `query` ("" or as "?api-version=1"), `model`, `max_retries`,
    `timeout_s` (of connecting, and of each wait for the next bytes) and `parallel`. `api_key` is sent where it is not
    empty, and taken out of whatever the server says.
    """

    def __init__(
        self,
        teacher: dict[str, Any],
        api_key: str = "",
        stop_requested: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.base_url = teacher["base_url"].rstrip("/")
        self.query = teacher["query"]
        self.model = teacher["model"]
        self.max_retries = teacher["max_retries"]
        self.timeout_s = teacher["timeout_s"]
        self.parallel = teacher["parallel"]
        self._api_key = api_key
        self._stop_requested = stop_requested
        self._sleep = sleep
        self._form: str | None = None  # found by probe()
        self._lock = threading.Lock()
        self.calls = 0  # answered ones
        self.retries = 0
        self.tokens = 0  # policy tokens that a log-probability was asked for
        self.missing = 0  # of them, those that got none

    # ------------------------------------------------------------------------------------------------ what is asked

    def completion_logprobs(self, rows: Sequence[tuple[list[int], list[int], list[int]]]) -> list[Logprobs]:
        """Log-probabilities, nats, of rows (prompt_ids, completion_ids, env_mask): a list a row, a number for each
        token of the completion.

        None where env_mask is 0, and where the server gave no finite number for the token. A row without a policy token
        is not sent. Raises TeacherError where a row gets no usable answer: no step is taken on a part of a batch.
        """
        asked = [row for row, (_, _, mask) in enumerate(rows) if any(mask)]
        failures: list[Exception] = []  # after the first the other rows need not try for minutes more

        def ask(row: int) -> Logprobs | None:
            if failures:
                return None
            prompt_ids, completion_ids, _ = rows[row]
            try:
                return self._sequence_logprobs(prompt_ids + completion_ids, failures)[len(prompt_ids) :]
            except Exception as error:
                failures.append(error)
                return None

        with ThreadPoolExecutor(max_workers=self.parallel) as pool:
            answers = dict(zip(asked, pool.map(ask, asked), strict=True))
        if failures:
            raise failures[0]
        scored: list[Logprobs] = []
        for row, (_, completion_ids, mask) in enumerate(rows):
            logprobs = answers.get(row, [None] * len(completion_ids))
            scored.append([logprob if bit else None for logprob, bit in zip(logprobs, mask, strict=True)])
            self.tokens += sum(mask)
            self.missing += sum(bit == 1 and logprob is None for bit, logprob in zip(mask, scored[-1], strict=True))
        return scored

    def probe(self, ids: list[int]) -> None:
        """Finds out how the server gives log-probabilities of a prompt. Raises TeacherError where it does not."""
        refusal = ""
        for form in _FORMS:
            try:
                choice = _only_choice(self._request("/completions", self._body(form, ids)), self._where)
                if _FORMS[form][1](choice, ids) is not None:
                    self._form = form
                    self._read(choice, ids)
                    return
            except _Refused as error:
                if error.status not in (400, 422):
                    raise
                refusal = f" It says: {error}"
        raise TeacherError(
            f"{self._where} gives '{self.model}' no log-probabilities of a prompt, which is what a teacher is for. "
            f"vLLM does (`vllm serve {self.model}`), and servers with `echo` and `logprobs` for token ids.{refusal}"
        )

    def tokenize(self, text: str) -> tuple[list[int], int | None] | None:
        """The server's own ids of a text without added ones, and its context length; None: it has no /tokenize."""
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        root = self.base_url.removesuffix("/v1")
        try:
            answer = self._request("/tokenize", body, base=root)
        except _Refused as error:
            if error.status in (400, 404, 405, 422, 501):
                return None
            raise
        ids = answer.get("tokens")
        if not isinstance(ids, list) or not all(type(each) is int for each in ids):
            return None
        limit = answer.get("max_model_len")
        return ids, limit if type(limit) is int else None

    def listed_model(self) -> tuple[list[str], int | None]:
        """The names of the models that /models lists ([]: it lists none), and our model's context length where told."""
        try:
            answer = self._request("/models", None)
        except _Refused as error:
            if error.status in (400, 404, 405, 501):
                return [], None
            raise
        entries = [
            each for each in answer.get("data") or [] if isinstance(each, dict) and isinstance(each.get("id"), str)
        ]
        own = next((each for each in entries if each["id"] == self.model), {})
        limit = own.get("max_model_len")
        return [each["id"] for each in entries], limit if type(limit) is int else None

    # ------------------------------------------------------------------------------------------------ one sequence

    def _sequence_logprobs(self, ids: list[int], failures: list[Exception]) -> Logprobs:
        if self._form is None:
            raise RuntimeError("completion_logprobs before probe")
        body = self._body(self._form, ids)
        return self._read(_only_choice(self._request("/completions", body, failures=failures), self._where), ids)

    def _body(self, form: str, ids: list[int]) -> dict[str, Any]:
        # At temperature 1, as nothing else is comparable; one token, as few servers generate none.
        return {"model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 1.0, **_FORMS[form][0]}

    def _read(self, choice: dict[str, Any], ids: list[int]) -> Logprobs:
        logprobs = _FORMS[self._form or ""][1](choice, ids)
        if logprobs is None or len(logprobs) != len(ids):
            came = "none" if logprobs is None else str(len(logprobs))
            raise TeacherError(
                f"{self._where}: {len(ids)} tokens were sent, and log-probabilities for {came} came back. "
                f"The server cuts or tokenises prompts of ids; it cannot be a teacher like that."
            )
        return [each if _usable(each) else None for each in logprobs]

    @property
    def _where(self) -> str:
        return f"The teacher's endpoint {self.base_url}"

    # ------------------------------------------------------------------------------------------------ HTTP

    def _request(
        self, path: str, body: dict[str, Any] | None, *, base: str | None = None, failures: Sequence[Exception] = ()
    ) -> dict[str, Any]:
        """POSTs `body`, or GETs where there is none; tries again what may pass. The answer's JSON object."""
        url = (self.base_url if base is None else base) + path + self.query
        for attempt in range(self.max_retries + 1):
            try:
                answer = self._once(url, body)
                with self._lock:
                    self.calls += 1
                return answer
            except _MayPass as failure:
                pause = failure.retry_after_s
                last = attempt == self.max_retries or (pause or 0) > LONGEST_PAUSE_S
                if last or self._stop_requested() or failures:
                    tries = f" ({attempt + 1} tries)" if attempt else ""
                    raise TeacherError(
                        f"{self._where} does not answer: {failure}{tries}. Check LLM_BASE_URL, and whether it runs."
                    ) from None
                with self._lock:
                    self.retries += 1
                backoff = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2**attempt) * random.uniform(0.5, 1)
                self._sleep(max(backoff, pause or 0.0))
        raise AssertionError("unreachable")

    def _once(self, url: str, body: dict[str, Any] | None) -> dict[str, Any]:
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers)
        try:
            with _OPENER.open(request, timeout=self.timeout_s) as response:
                text = response.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            raise self._failure(error) from None
        except (http.client.HTTPException, urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            cut = isinstance(error, http.client.IncompleteRead)
            raise _MayPass("the answer was cut off" if cut else self._hide(str(reason))) from None
        try:
            answer = json.loads(text)
        except ValueError:
            raise _MayPass(f"the answer is no whole JSON: {self._hide(text)[:80]!r}") from None
        if not isinstance(answer, dict):
            raise _MayPass(f"the answer is a {type(answer).__name__}; expected an object")
        return answer

    def _failure(self, error: urllib.error.HTTPError) -> Exception:
        try:
            said = " ".join(self._hide(error.read().decode("utf-8", "replace")).split())[:SAID_CHARACTERS]
        except (http.client.HTTPException, OSError):
            said = ""
        what = f"HTTP {error.code}" + (f": {said}" if said else "")
        if error.code in (408, 409, 425, 429) or (error.code >= 500 and error.code != 501):
            return _MayPass(what, _retry_after_s(error.headers.get("retry-after")))
        check = {
            401: "LLM_API_KEY" + ("" if self._api_key else ", which is not set"),
            403: "the account that LLM_API_KEY belongs to",
            404: f"the model '{self.model}', and LLM_BASE_URL, which mostly ends in /v1",
        }.get(error.code, "LLM_BASE_URL, which mostly ends in /v1" if error.code < 400 else "the request's model")
        return _Refused(f"{self._where} refuses: {what}. Check {check}.", error.code)

    def _hide(self, text: str) -> str:
        return text.replace(self._api_key, "[LLM_API_KEY]") if len(self._api_key) >= SHORTEST_SECRET else text


class _Refused(TeacherError):
    """An HTTP status that another try will not change."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key to wherever the server says."""

    def redirect_request(self, *_):
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


# ---------------------------------------------------------------------------------------------------- wire forms


def _read_prompt_logprobs(choice: dict[str, Any], ids: list[int]) -> list[Any] | None:
    """A value a token of the prompt; None: the answer has none of this form."""
    entries = choice.get("prompt_logprobs")
    if not isinstance(entries, list):
        return None
    # By id: the sampled token is not the first of its map unless it is the most probable one.
    pairs = zip(entries, [*ids, *[-1] * len(entries)], strict=False)
    found = [entry.get(str(token)) if isinstance(entry, dict) else None for entry, token in pairs]
    return [each.get("logprob") if isinstance(each, dict) else each for each in found]


def _read_echo(choice: dict[str, Any], ids: list[int]) -> list[Any] | None:
    logprobs = choice.get("logprobs")
    numbers = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not isinstance(numbers, list):
        return None
    return numbers[:-1] if len(numbers) == len(ids) + 1 else numbers  # the generated token comes last


# What is added to a request, and how its answer is read.
_FORMS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any], list[int]], list[Any] | None]]] = {
    "prompt_logprobs": ({"prompt_logprobs": 1}, _read_prompt_logprobs),
    "echo": ({"echo": True, "logprobs": 1}, _read_echo),
}


def _only_choice(answer: dict[str, Any], where: str) -> dict[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        came = f"{len(choices)} choices" if isinstance(choices, list) else f"no choices but {sorted(answer)[:5]}"
        raise TeacherError(f"{where} answered one prompt with {came}; expected one choice.")
    return choices[0]


def _usable(logprob: Any) -> bool:
    """Whether it is a log-probability: a finite number up to 0 (a little rounding above it is let through)."""
    number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
    return number and math.isfinite(logprob) and LEAST_LOGPROB < logprob <= 1e-3


def _retry_after_s(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
