"""The Python end of the bridge: JSON text in, JSON text out.

The only module that ever holds one of pythonia's proxies. Node calls `connect` once and `handle` for every call;
trainers see a `Host`. The twin of the codec is `src/bridge/codec.ts`, of the envelope `src/bridge/python.ts`.
"""

import ctypes
import faulthandler
import importlib
import json
import math
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

# The longest text that crosses, in characters: escaped twice it must still fit one Node string (512 Mi units).
MAX_TEXT_LENGTH = 64 * 1024 * 1024
# What the process ends with when it is asked to stop and nothing would be saved by waiting; python.ts knows it.
STOPPED_EXIT_CODE = 130

# --- codec --------------------------------------------------------------------------------------------------------

_SAFE = 2**53  # from here on Node's numbers skip integers

_replaced = 0


def replaced_surrogates() -> int:
    """Lone surrogates replaced since the process began."""
    return _replaced


def well_formed(text: str) -> str:
    """Half a surrogate pair is not text and breaks encoders: each becomes U+FFFD and is counted."""
    global _replaced
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        # A pair written as two halves (as JSON may) is one character; what is left after joining them stands alone.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        lone = sum(1 for character in joined if "\ud800" <= character <= "\udfff")
        _replaced += lone
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in joined)


def encode(value: Any, path: str = "value") -> str:
    """The JSON text of plain data. Tuples, numpy arrays and tensors become lists, their scalars numbers.

    Raises TypeError with the path of what cannot cross (integers beyond 2^53, sets, instances, keys that are no text)
    and ValueError where the text is longer than MAX_TEXT_LENGTH.
    """
    text = json.dumps(_plain(value, path), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(
            f"{path} is {len(text) >> 20} MiB as JSON; the bridge carries at most {MAX_TEXT_LENGTH >> 20} MiB at once. "
            "Write it to a file and pass the file's path."
        )
    return text


def decode(text: str) -> Any:
    """The data of a text that `encode` of either side wrote."""
    return _revive(json.loads(text))


def _plain(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int):
        if abs(value) >= _SAFE:
            raise TypeError(f"{path} is {value}, beyond 2^53: Node would read another number. Pass it as text.")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": _float_name(value)}
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}, a {type(key).__name__}; keys that cross are text.")
            result[well_formed(key)] = _plain(item, f"{path}.{key}")
        # Data of the caller that looks like our mark is wrapped in one more, which `decode` takes off.
        return {"$float": result} if result.keys() == {"$float"} else result
    if isinstance(value, list | tuple):
        return [
            item if type(item) is int and -_SAFE < item < _SAFE else _plain(item, f"{path}[{index}]")
            for index, item in enumerate(value)
        ]
    if hasattr(value, "tolist"):  # numpy and torch, without importing either
        return _plain(value.tolist(), path)
    raise TypeError(
        f"{path} is a {type(value).__name__}; only None, booleans, numbers, texts, lists and dicts cross to Node."
    )


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _revive(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_revive(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"$float"}:
        return {well_formed(key): _revive(item) for key, item in value.items()}
    mark = value["$float"]
    if isinstance(mark, dict):
        return {well_formed(key): _revive(item) for key, item in mark.items()}
    if mark not in _FLOATS:
        raise ValueError(f'{{"$float": {mark!r}}} is no number.')
    return _FLOATS[mark]


# --- host ---------------------------------------------------------------------------------------------------------


class HostError(Exception):
    """What TypeScript answered was a failure, or no answer. Let it pass: the run ends with TypeScript's own error."""


class Host:
    """TypeScript, as one call of Python sees it. Alive from the start of `run(request, host)` to its return."""

    def __init__(self, crossing: Callable[[str, str, float], Any]):
        self._crossing = crossing
        self._queued: queue.SimpleQueue[tuple[str, dict]] = queue.SimpleQueue()
        self._stop = False
        self._open = True
        self.polls_stop = (
            False  # true once stop_requested was read: only then is there a point in waiting for the entry
        )
        self.callbacks = 0
        self.round_trip_ms = 0.0  # waiting for answers, coding included
        self.handler_ms = 0.0  # the part of it that TypeScript spent in its own work, as stepping environments

    @property
    def crossing_ms(self) -> float:
        """The bridge's own time in this call, milliseconds: round trips without TypeScript's work in between."""
        return self.round_trip_ms - self.handler_ms

    @property
    def stop_requested(self) -> bool:
        """True once a stop was asked for (Ctrl-C, SIGTERM, or TypeScript). Save, then return.

        Read it at every step. An entry that never reads it is ended at once when a stop is asked for.
        """
        self.polls_stop = True
        return self._stop

    def ask(self, op: str, payload: dict) -> dict:
        """One crossing: TypeScript's answer to `op`. Main thread only.

        Raises HostError where TypeScript failed or answered nonsense, TypeError (with the path) where the payload
        cannot cross, RuntimeError from another thread.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                f"host.ask('{op}') from thread '{threading.current_thread().name}': only the main thread may ask. "
                "Use host.log or host.note, which are queued."
            )
        self._drain()
        return self._cross(op, payload)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Metrics of a step. From any thread; another thread's are sent with the main thread's next crossing."""
        self._send("log", {"step": step, "metrics": metrics})

    def note(self, text: str) -> None:
        """A line for the person watching. From any thread, as `log`."""
        self._send("note", {"text": text})

    def request_stop(self) -> None:
        self._stop = True

    def close(self) -> None:
        """Sends what other threads still have in the queue. Called once, by `handle`, in the main thread."""
        self._drain()
        self._open = False

    def _send(self, op: str, payload: dict) -> None:
        if threading.current_thread() is threading.main_thread():
            self.ask(op, payload)
        elif not self._open:
            raise HostError(f"'{op}' from thread '{threading.current_thread().name}': the call it belongs to is over.")
        else:
            self._queued.put((op, payload))

    def _drain(self) -> None:
        while True:
            try:
                op, payload = self._queued.get_nowait()
            except queue.Empty:
                return
            self._cross(op, payload)

    def _cross(self, op: str, payload: dict) -> dict:
        if not self._open:
            raise HostError(f"'{op}': the call it belongs to is over.")
        started = time.perf_counter()
        text = encode(payload, op)
        reply = self._crossing(op, text, self.round_trip_ms)
        try:
            answer = decode(reply)
            ok = answer["ok"]
        except (TypeError, ValueError, KeyError) as error:
            raise HostError(f"The answer to '{op}' is no envelope: {str(reply)[:200]!r}") from error
        self.callbacks += 1
        self.round_trip_ms += (time.perf_counter() - started) * 1000
        self.handler_ms += answer.get("handler_ms", 0.0)
        if answer.get("stop"):
            self._stop = True
        if not ok:
            raise HostError(answer["error"]["message"])
        if not isinstance(answer["result"], dict):
            raise HostError(f"The answer to '{op}' is a {type(answer['result']).__name__}; expected an object.")
        return answer["result"]


# --- what Node calls ----------------------------------------------------------------------------------------------

_callback: Any = None  # pythonia's proxy, held for good: one that is collected would write from any thread
_current: Host | None = None


def connect(callback: Any, text: str) -> str:
    """Called once by Node. Makes this process a safe child: see `_quiet_stdout`, `_watch`.

    `text` is {"parent_pid": int, "python_path": [folder]}; the answer {"pid", "python", "executable"}.
    """
    global _callback
    options = decode(text)
    _callback = callback
    # Its finalizer would write to the channel, at the interpreter's end too, when half of that is gone.
    if "__del__" in vars(type(callback)):
        del type(callback).__del__
    for name in ("NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"):
        descriptor = os.environ.pop(name, None)  # a grandchild that is a Node would talk into our channel
        if name == "NODE_CHANNEL_FD" and descriptor is not None:
            os.set_inheritable(int(descriptor), False)
    # pythonia's own folder leads the search path: its `ws` and `proxy` would hide packages of those names.
    own = os.path.dirname(os.path.abspath(sys.modules["__main__"].__file__ or ""))
    sys.path[:] = [*options["python_path"], *(folder for folder in sys.path if os.path.abspath(folder) != own)]
    _quiet_stdout()
    _watch(options["parent_pid"])
    return encode({"pid": os.getpid(), "python": sys.version.split()[0], "executable": sys.executable})


def handle(text: str) -> str:
    """One call: {"entry", "request"} in, {"ok": true, "result", "stats"} or {"ok": false, "error", "stats"} out.

    Never raises. `entry` is a module of this package that has `run(request, host)`, as "sft", or "module:function" of
    anything on the search path.
    """
    global _current
    host = Host(_cross_to_node)
    try:
        call = decode(text)
        _current = host
        run = _find(call["entry"])
        result = run(call["request"], host)
        host.close()
        reply = f'{{"ok":true,"result":{encode(result, call["entry"])},"stats":{_stats(host)}}}'
    except SystemExit as error:
        # Unwinding on would wait for other threads; Node is to hear of the end now, with this text as last words.
        traceback.print_exc()
        os._exit(_flushed(error.code if isinstance(error.code, int) else 0 if error.code is None else 1))
    except BaseException as error:
        reply = f'{{"ok":false,"error":{encode(_describe(error))},"stats":{_stats(host)}}}'
    finally:
        host._open = False
        _current = None
    _flushed(0)
    return reply


def _cross_to_node(op: str, text: str, round_trip_ms: float) -> Any:
    return _callback(op, text, round_trip_ms)


def _find(entry: str) -> Callable[[dict, Host], dict]:
    module_name, _, function_name = entry.partition(":")
    module = importlib.import_module(module_name if function_name else f"{__package__}.{module_name}")
    return getattr(module, function_name or "run")


def _describe(error: BaseException) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
    if isinstance(error, ModuleNotFoundError):
        described["missing"] = error.name
    return described


def _stats(host: Host) -> str:
    return encode(
        {
            "callbacks": host.callbacks,
            "round_trip_ms": host.round_trip_ms,
            "handler_ms": host.handler_ms,
            "replaced_surrogates": replaced_surrogates(),
        }
    )


def _flushed(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _quiet_stdout() -> None:
    """What Python, its libraries and its children print goes to stderr: the program's stdout is for results only."""
    sys.stdout.flush()
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[attr-defined]
    faulthandler.enable()  # a segfault leaves its Python frames as last words


def _watch(parent_pid: int) -> None:
    """Ends this process with its parent, and turns signals into a flag.

    Linux kills us in the instant the parent dies, whatever Python is doing; the thread does the same elsewhere, within
    a second. SIGINT reaches the whole group of a terminal and would break a step in the middle: ignored. SIGUSR1 (from
    Node) and SIGTERM ask for a stop.
    """
    if sys.platform == "linux":
        _die_with_parent()
        os.register_at_fork(after_in_child=_reset_child)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, _request_stop)
    signal.signal(signal.SIGTERM, _request_stop)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # Signals are heard here even while the main thread is deep in C code, where its handler has to wait.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch_forever, args=(parent_pid, reader), name="trestle-watch", daemon=True).start()


def _request_stop(_signal: int, _frame: Any) -> None:
    if _current is not None:
        _current.request_stop()


def _watch_forever(parent_pid: int, signals: int) -> None:
    while True:
        if os.getppid() != parent_pid:
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpid(), signal.SIGKILL)  # with all that we started
            os._exit(STOPPED_EXIT_CODE)
        if not select.select([signals], [], [], 1.0)[0]:
            continue
        heard = set(os.read(signals, 64))
        host = _current
        if host is not None and heard & {signal.SIGUSR1, signal.SIGTERM}:
            if not host.polls_stop:
                os._exit(STOPPED_EXIT_CODE)  # nobody looks at the flag: nothing would be saved by waiting
            host.request_stop()
        elif signal.SIGTERM in heard:
            os._exit(128 + signal.SIGTERM)  # idle; a late SIGUSR1 is for a call that has just returned


def _die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def _reset_child() -> None:
    """A forked worker (as of a DataLoader) dies by SIGTERM as usual, and with us."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    _die_with_parent()
