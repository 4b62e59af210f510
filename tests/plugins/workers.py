"""With several workers (`pytest -n 2`): modules run side by side, then those of `ALONE` one after the other.

A module of tests is run by one worker, as what its tests share is made once in a process. A test that measures times or
starts a crowd of processes has the machine for itself, whichever order the tests are named in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ALONE: Final = (
    "tests/bench/test_overhead_runs.py",
    "tests/bench/test_pressure.py",
    "tests/bench/test_scale_runs.py",
    "tests/bench/test_soak_runs.py",
    "tests/bench/test_stalls_runs.py",
    "tests/bench/test_truth_runs.py",
    "tests/cli/test_demo_in_a_terminal.py",
    "tests/gateways/",
    "tests/integration/test_blocking_telemetry.py",
    "tests/integration/test_long_streams.py",
    "tests/integration/test_stalls.py",
    "tests/integration/test_truth.py",
    "tests/production/test_leaving_nothing.py",
    "tests/tools/sweep/test_sweep_command.py",
    "tests/testing/test_timing.py",
    "tests/unit/test_import_cost.py",
    "tests/unit/test_loop_lag.py",
)
"""Modules, and folders of them, that run alone."""
TOGETHER: Final = ("tests/collector/", "tests/production/", "tests/sdks/")
"""Folders that one worker runs as if they were one module, but for what runs alone: what takes them long to begin, such
as starting a program or using every SDK for the first time, is done once in a process."""


class AloneLast(LoadScopeScheduling):
    """Scheduler of pytest-xdist: when only modules of `ALONE` are left, one worker is left to run them."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if module.startswith(ALONE) else next((one for one in TOGETHER if module.startswith(one)), module)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note that a worker has run a test; it may be what the worker of the modules of `ALONE` waits for."""
        super().mark_test_complete(node, item_index, duration)
        if not self._has_shared_work():
            for other in self.nodes:
                self._reschedule(other)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the worker the next module, none of `ALONE` while there is another one."""
        shared = next((module for module in self.workqueue if not module.startswith(ALONE)), None)
        if shared is not None:
            self.workqueue.move_to_end(shared, last=False)
        elif self._has_busy_peer(node):
            return
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give the worker more modules if it needs some; of `ALONE`, only if all other workers are done."""
        if self._has_shared_work() or not self.workqueue:
            super()._reschedule(node)
        elif any(not other.shutting_down for other in self.nodes if other is not node):
            node.shutdown()  # it finishes what it has
        elif not self._has_busy_peer(node):
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) < 2:  # a worker keeps its last test until it has another one
                super()._reschedule(node)

    def _has_shared_work(self) -> bool:
        return any(not module.startswith(ALONE) for module in self.workqueue)

    def _has_busy_peer(self, node: WorkerController) -> bool:
        peers = (other for other in self.nodes if other is not node)
        return any(not peer.shutting_down or self._pending_of(self.assigned_work[peer]) for peer in peers)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> AloneLast:
    """Make the scheduler of a run with several workers."""
    return AloneLast(config, log)
