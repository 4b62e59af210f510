"""Describes the machine, the Python and the packages that figures were measured with."""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.overhead.subjects import Subject
from bench.overhead.variants import COMPARED

_PACKAGES = ("opentelemetry-sdk", "wrapt", "pydantic")


def described(subjects: Iterable[Subject]) -> list[str]:
    """Return three lines: the versions of the packages, the Python, the machine."""
    used = [subject.package for subject in subjects]
    others = [package for variant in COMPARED for package in variant.packages.values()]
    installed = [f"{package} {found}" for package in [*used, *_PACKAGES, *others] if (found := _version(package))]
    python = f"{platform.python_implementation()} {platform.python_version()} ({_build()})"
    machine = f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    return [", ".join(installed), python, machine]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _build() -> str:
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = [name for name, flag in (("PGO", "--enable-optimizations"), ("LTO", "--with-lto")) if flag in options]
    return "built with " + " and ".join(optimised) if optimised else "built without PGO or LTO"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
