"""What is installed here and what it can use: the facts behind `trestle doctor`."""

import os
import shutil
import time
from importlib import metadata

from trainers.wire import Host

PINGS = 100


def run(request: dict, host: Host) -> dict:
    """`request`: {"packages": [name], "features"?: true}. Versions are None where a package is missing.

    Returns {"packages": {name: version}, "torch": {"error"} or {"cuda_build", "devices", "threads"}, "nvidia_driver",
    "ping_us"}; memory in bytes, `ping_us` the median time of an empty round trip to TypeScript, microseconds. With
    `features`, which imports TRL, also {"features": {"problems", "warnings"}}: what the libraries lack for training.
    """
    return {
        **({"features": _features()} if request.get("features") else {}),
        "packages": {name: _version(name) for name in request["packages"]},
        "torch": _torch(),
        # The driver without torch's help: a CPU build of torch on a machine with a GPU is worth a warning.
        "nvidia_driver": shutil.which("nvidia-smi") is not None or os.path.exists("/proc/driver/nvidia/version"),
        "ping_us": _ping(host),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _features() -> dict:
    from trainers.features import SET_BY_US, missing_features

    found = [missing_features(recipe) for recipe in SET_BY_US]
    problems, warned = ([text for each in found for text in each[part]] for part in (0, 1))
    return {"problems": list(dict.fromkeys(problems)), "warnings": list(dict.fromkeys(warned))}


def _torch() -> dict:
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways: a missing library, a wrong numpy
        return {"error": f"{type(error).__name__}: {error}"}
    devices = [
        {"name": properties.name, "memory_bytes": properties.total_memory}
        for properties in map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    ]
    if torch.backends.mps.is_available():
        devices.append({"name": "Apple GPU (mps)", "memory_bytes": None})
    return {
        "cuda_build": torch.version.cuda or torch.version.hip,
        "devices": devices,
        "threads": torch.get_num_threads(),
    }


def _ping(host: Host) -> float:
    times = []
    for _ in range(PINGS):
        started = time.perf_counter()
        host.ask("ping", {})
        times.append(time.perf_counter() - started)
    return sorted(times)[PINGS // 2] * 1e6
