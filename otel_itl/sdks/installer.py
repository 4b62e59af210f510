"""Which SDKs are patched in this process, and which cannot be."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from otel_itl.sdks.driver import Driver
from otel_itl.sdks.open_call import RecordingOpener
from otel_itl.sdks.patching import Hook, PackagePatches
from otel_itl.sdks.registry import REGISTRY, SDKEntry

logger = logging.getLogger("otel_itl")


class SDKInstaller:
    """Installs and removes the patches of SDKs, by their names in the registry.

    Args:
        opener: opens the recordings of their streams.
    """

    def __init__(self, opener: RecordingOpener) -> None:
        self.driver = Driver(opener)
        self._patches: dict[str, tuple[PackagePatches, ...]] = {}
        self.installed: frozenset[str] = frozenset()
        """The names of the SDKs that are patched, or will be as soon as they are imported."""

    def missing_targets(self, name: str) -> list[str]:
        """Return the functions that were to be patched and do not exist in the installed release of an SDK."""
        return sorted(missing for patches in self._patches.get(name, ()) for missing in patches.missing)

    def install(self, name: str, *, is_required: bool) -> bool:
        """Patch an SDK; returns False where it is not installed or too old.

        Args:
            name: its name in the registry.
            is_required: it was asked for by name, so that its absence is worth a warning.
        """
        if not _is_usable(REGISTRY[name], is_required=is_required):
            return False
        for patches in self._patches_of(name):
            patches.install()
        self.installed |= {name}
        return True

    def remove(self, name: str) -> None:
        """Remove the patches of an SDK, if they are installed."""
        if name in self.installed:
            for patches in self._patches_of(name):
                patches.remove()
            self.installed -= {name}

    def _patches_of(self, name: str) -> tuple[PackagePatches, ...]:
        """Return the patches of an SDK, by what they wait for; the first time, import the module that describes it."""
        if name not in self._patches:
            entry = REGISTRY[name]
            by_trigger: dict[str, list[Hook]] = {}
            for hook in import_module(entry.module).SDK:
                by_trigger.setdefault(hook.module if hook.is_imported_late else entry.package, []).append(hook)
            self._patches[name] = tuple(PackagePatches(*each, self.driver) for each in by_trigger.items())
        return self._patches[name]


def _is_usable(entry: SDKEntry, *, is_required: bool) -> bool:
    """Return whether a supported version of the SDK is installed; warn of one that is too old."""
    try:
        installed = version(entry.distribution)
    except PackageNotFoundError:
        if is_required:
            logger.warning(
                "%s is not installed: otel_itl measures the streams of %s.", entry.distribution, entry.requirement
            )
        return False
    if tuple(int(part) for part in re.findall(r"\d+", installed)[: len(entry.oldest)]) < entry.oldest:
        logger.warning(
            "%s %s is too old: otel_itl measures the streams of %s, and leaves this one alone.",
            entry.distribution,
            installed,
            entry.requirement,
        )
        return False
    return True
