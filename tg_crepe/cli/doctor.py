from __future__ import annotations

import os
import platform
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from rich.console import Console

from tg_crepe import __version__
from tg_crepe._optional import available
from tg_crepe.cli._options import DidNotConverge, Json
from tg_crepe.cli._outputs import show_json

#: What every installation has, and what the extras bring: the module, the package and the extra.
_CORE = (("torch", "torch"), ("torch_geometric", "torch-geometric"), ("numpy", "numpy"), ("scipy", "scipy"))
_EXTRAS = (
    ("numba", "numba", "fast"),
    ("faiss", "faiss-cpu", "knn"),
    ("torchvision", "torchvision", "vision"),
    ("PIL", "pillow", "vision"),
    ("medmnist", "medmnist", "vision"),
    ("timm", "timm", "embed"),
    ("safetensors", "safetensors", "embed"),
    ("sentence_transformers", "sentence-transformers", "embed-text"),
    ("pydicom", "pydicom", "medical"),
    ("torchmetrics", "torchmetrics", "train"),
    ("accelerate", "accelerate", "train"),
    ("sklearn", "scikit-learn", "sklearn"),
    ("matplotlib", "matplotlib", "plot"),
    ("pandas", "pandas", "pandas"),
    ("datasets", "datasets", "huggingface"),
    ("jinja2", "jinja2", "report"),
    ("starlette", "starlette", "label"),
    ("uvicorn", "uvicorn", "label"),
    ("typer", "typer", "cli"),
    ("rich", "rich", "cli"),
    ("pyarrow", "pyarrow", "cli"),
    ("pymetis", "pymetis", "distributed"),
    ("torch_scatter", "torch-scatter", "ext"),
    ("torch_sparse", "torch-sparse", "ext"),
    ("torch_cluster", "torch-cluster", "ext"),
)

#: Per cent of wrong labels that the self-test allows on two rings that a person would never mix up.
_MOST_ERROR = 1.0


def doctor(
    ctx: typer.Context,
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Versions alone: import no extra and leave the self-test out.")
    ] = False,
) -> None:
    """Show versions, extras and threads, and run a self-test: what to paste into a bug report.

    All extras are imported, which takes ten seconds, and more on a busy machine; --quick takes two.

    Exit code 1: the self-test failed.

    Example: tg-crepe doctor
    """
    progress: Console = ctx.obj
    with progress.status("looking around"):
        found = _look_around(imports=not quick)
    if not quick:
        with progress.status("self-test"):
            found["self_test"] = _self_test()
    if as_json:
        show_json(found)
    else:
        for line in _lines(found):
            typer.echo(line)
    if any(not test["passed"] for test in found.get("self_test", [])):
        raise DidNotConverge


def _look_around(imports: bool) -> dict[str, Any]:
    import torch

    extras: dict[str, dict[str, str | None]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages say while they are imported
        for module, package, extra in _EXTRAS:
            extras.setdefault(extra, {})[package] = _state(module, package, imports)
    return {
        "tg-crepe": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "packages": {package: _version(package) for _, package in _CORE},
        "extras": extras,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _state(module: str, package: str, imports: bool) -> str | None:
    """The version, None where it is not installed, or that it cannot be imported, where that is asked."""
    found = _version(package)
    return found if found is None or not imports or available(module) else f"{found}, cannot be imported"


def _self_test() -> list[dict[str, Any]]:
    """Two rings with two labels each, by every backend that is there."""
    import torch

    from tg_crepe import CrepePropagation, knn_graph

    generator = torch.Generator().manual_seed(0)
    angle = 2 * torch.pi * torch.arange(600) / 300
    y = (torch.arange(600) >= 300).long()
    x = torch.stack([angle.cos(), angle.sin()], dim=1) * (1 + y).unsqueeze(1)
    x = x + 0.03 * torch.randn(x.shape, generator=generator)
    mask = torch.isin(torch.arange(600), torch.tensor([0, 150, 300, 450]))
    edge_index, edge_weight = knn_graph(x, k=10, metric="euclidean")
    tests = []
    for backend in ("torch", *(("numba",) if available("numba") else ())):
        start = time.perf_counter()
        result = CrepePropagation(backend=backend).propagate(y, edge_index, mask, edge_weight)
        error = 100 * float((result.label != y)[~mask].double().mean())
        passed = error <= _MOST_ERROR and result.status == "converged"
        seconds = round(time.perf_counter() - start, 2)
        tests.append(
            {"backend": backend, "error": error, "status": result.status, "seconds": seconds, "passed": passed}
        )
    return tests


def _lines(found: dict[str, Any]) -> list[str]:
    """The same for a person."""
    lines = [
        f"tg-crepe {found['tg-crepe']}, Python {found['python']}, {found['system']}",
        f"{found['cores']} cores, {found['torch_threads']} threads, {found['cuda'] or 'no CUDA device'}",
        ", ".join(f"{name} {number}" for name, number in found["packages"].items()),
    ]
    for extra, packages in found["extras"].items():
        lines.append(f"extra {extra}: " + ", ".join(f"{name} {state or 'missing'}" for name, state in packages.items()))
    for test in found.get("self_test", []):
        word = "passed" if test["passed"] else "FAILED"
        lines.append(
            f"self-test, {test['backend']}: {word} ({test['error']:.1f} % wrong, {test['status']}, {test['seconds']} s)"
        )
    return lines
