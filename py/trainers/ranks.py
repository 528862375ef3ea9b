"""Several processes that train one model: what they decide together, and that none outlives another.

A process of the run is a rank: a Node and its Python, started by torch's launcher. The process group between the
Pythons is accelerate's; with one process every function here is what it would be without this file.
"""

import contextlib
import json
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from accelerate import PartialState

# What the process ends with when another rank is gone, and what begins the line that says why: for python.ts.
RANK_LOST_EXIT_CODE, REASON_MARK = 131, "\x1e"
# How long an error waits for word that another rank is gone, of which it would then be a mere consequence.
CONSEQUENCE_S = 1.0
CONNECT_S = 20.0
# Figures of which a run has the sum over ranks; of all others it has the mean.
SUMS = {"sampling/tokens_per_s", "sampling/policy_tokens"}


def several() -> bool:
    """Whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def arguments() -> dict[str, Any]:
    """Keys of TRL's config that several processes decide. Every weight has a gradient: DDP need not look for others."""
    return {"ddp_find_unused_parameters": False} if int(os.environ.get("WORLD_SIZE", 1)) > 1 else {}


def agree(flag: bool) -> bool:
    """Whether `flag` is true on any rank: the same answer on all. Every rank must ask at the same place."""
    return bool(highest(float(flag))) if several() else flag


def highest(value: float) -> float:
    """The largest of the ranks' values, on every rank."""
    return _reduced([value], dist.ReduceOp.MAX)[0] if several() else value


def mean(value: float) -> float:
    """The mean of the ranks' values, on every rank."""
    return totals([value])[0] / dist.get_world_size() if several() else value


def totals(values: list[float]) -> list[float]:
    """Each value's sum over the ranks, on every rank. Whole numbers below 2^53 stay exact."""
    return _reduced(values, dist.ReduceOp.SUM) if several() else list(values)


def pooled(figures: dict[str, float]) -> dict[str, float]:
    """Figures of all ranks in one: the mean over those that have it, or the sum for the names in SUMS."""
    if not several():
        return figures
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, figures)
    names = dict.fromkeys(name for each in every for name in each)
    return {name: _pool(name, [each[name] for each in every if name in each]) for name in names}


def _pool(name: str, values: list[float]) -> float:
    return sum(values) if name in SUMS else sum(values) / len(values)


def _reduced(values: list[float], operation) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64, device=PartialState().device)
    dist.all_reduce(tensor, op=operation)
    return tensor.tolist()


# --- the watch ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """While it lasts, this process ends with the first rank that dies or fails, whatever it is doing.

    A collective would wait for a dead peer for minutes, and a rank that samples would not notice at all. So every rank
    holds a connection to rank 0, which the system closes where a process dies, and rank 0 tells the others.
    """
    if not several():
        yield
        return
    watch = _connect()
    if watch is None:
        yield
        return
    threading.Thread(target=watch.run, name="trestle-ranks", daemon=True).start()
    try:
        yield
    except BaseException as error:
        time.sleep(CONSEQUENCE_S)  # the watch ends this process where another one is the cause
        watch.leave(failed=_why(error))
        raise
    else:
        watch.leave()


def _why(error: BaseException) -> str:
    """One line. The classes of our own errors say nothing to a person."""
    own = type(error).__module__.startswith("trainers.") and str(error)
    text = str(error) if own else f"{type(error).__name__}: {error}"
    return text.strip().split("\n")[0].rstrip(".")


def _connect() -> "Watch | None":
    """Rank 0 listens, the others come. None where they cannot reach it: then only the launcher notices a death."""
    rank, size = dist.get_rank(), dist.get_world_size()
    one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(size)
    own, where = ("127.0.0.1", "127.0.0.1") if one_machine else ("", os.environ["MASTER_ADDR"])
    listener = socket.create_server((own, 0), backlog=size) if rank == 0 else None
    place: list[Any] = [listener and listener.getsockname()[1], secrets.token_hex(16)]
    dist.broadcast_object_list(place, src=0)
    port, token = place
    peers: dict[int, socket.socket] = {}
    problem = None
    try:
        if listener is None:
            peers[0] = socket.create_connection((where, port), timeout=CONNECT_S)
            _send(peers[0], {"rank": rank, "token": token})
        else:
            peers = _accept(listener, token, size)
    except OSError as error:
        problem = error
    if listener is not None:
        listener.close()
    if agree(problem is not None):
        for peer in peers.values():
            peer.close()
        if problem is not None:
            print(f"warning: rank {rank} has no watch on the others ({problem}).", file=sys.stderr)
        return None
    for peer in peers.values():
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):  # a machine that is gone
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Watch(rank, size, peers)


def _accept(listener: socket.socket, token: str, size: int) -> dict[int, socket.socket]:
    peers: dict[int, socket.socket] = {}
    deadline = time.monotonic() + CONNECT_S
    while len(peers) < size - 1:
        listener.settimeout(max(0.01, deadline - time.monotonic()))
        peer, _ = listener.accept()
        peer.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            hello = json.loads(peer.makefile("rb").readline())
            if hello["token"] != token:
                raise ValueError("another run's")
        except (ValueError, TypeError, KeyError, TimeoutError):
            peer.close()  # none of ours
        else:
            peers[hello["rank"]] = peer
    return peers


def _send(peer: socket.socket, message: dict) -> None:
    with contextlib.suppress(OSError):  # it is gone: the watch reads that
        peer.sendall(f"{json.dumps(message)}\n".encode())


class Watch:
    """One rank's connections: rank 0's to all others, the others' to rank 0. A line of JSON a message."""

    def __init__(self, rank: int, size: int, peers: dict[int, socket.socket], end: Callable[[str], None] | None = None):
        self.rank, self.size, self.peers = rank, size, peers
        self._end = end or _end
        self._heard = dict.fromkeys(peers, b"")
        self._left = threading.Event()

    def run(self) -> None:
        """Reads until every peer has left in order. Ends this process where one has not."""
        selector = selectors.DefaultSelector()
        for rank, peer in self.peers.items():
            peer.setblocking(True)
            selector.register(peer, selectors.EVENT_READ, rank)
        while selector.get_map():
            for key, _ in selector.select():
                if not self._read(key.data, key.fileobj):
                    selector.unregister(key.fileobj)

    def _read(self, rank: int, peer: Any) -> bool:
        """Whether there is more to come from this peer."""
        try:
            heard = peer.recv(4096)
        except OSError:
            heard = b""
        if self._left.is_set():
            return bool(heard)
        if not heard:
            self._lost(rank, "its process was killed or is out of reach")
            return False
        *lines, self._heard[rank] = (self._heard[rank] + heard).split(b"\n")
        for message in map(json.loads, lines):
            if message.get("done"):
                return False
            if "failed" in message:
                self._lost(rank, message["failed"])
                return False
            self._end(message["lost"])
            return False
        return True

    def _lost(self, rank: int, why: str) -> None:
        text = f"Rank {rank} of {self.size} is gone: {why}."
        for other, peer in self.peers.items():
            if other != rank:
                _send(peer, {"lost": text})
        self._end(text)

    def leave(self, failed: str | None = None) -> None:
        """Tells the others that this rank is done, or why it fails: then they end with it. It itself no longer does."""
        self._left.set()
        if failed is None:
            message = {"done": True}
        elif self.rank == 0:
            message = {"lost": f"Rank 0 of {self.size} is gone: {failed}."}
        else:
            message = {"failed": failed}
        for peer in self.peers.values():
            _send(peer, message)


def _end(text: str) -> None:
    os.write(2, f"{REASON_MARK}{text}\n".encode())  # the main thread may hold the lock of sys.stderr
    os._exit(RANK_LOST_EXIT_CODE)
