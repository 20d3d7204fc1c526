"""Views of a namespace, made by hand."""

from decimal import Decimal
from typing import Any

from runtree.messages import Cost, Usage
from runtree.messages.overview import NamespaceView
from runtree.messages.result import RunInfo


def info(run_id: str, parent: str | None = None, root: str | None = None, **fields: Any) -> RunInfo:
    """Return a run: without a parent a root; `tokens` are its and its sub-tree's, a cent each."""
    tokens = fields.pop("tokens", 0)
    return RunInfo(
        **{
            "run_id": run_id,
            "parent_run_id": parent,
            "root_run_id": root or parent or run_id,
            "depth": 0 if parent is None else 1,
            "agent": f"agent-{run_id}",
            "status": "running",
            "started": 90.0,
            "progress": 99.0,
            "driver": "host:1",
            "total_usage": Usage(input_tokens=tokens, output_tokens=0),
            "total_cost": Cost(amount=Decimal(tokens) / 100),
            **fields,
        }
    )


def view(*runs: RunInfo, **fields: Any) -> NamespaceView:
    """Return a view of these runs, at second 100 if nothing else is said."""
    roots = [run for run in runs if run.parent_run_id is None]
    return NamespaceView(
        **{
            "namespace": "test",
            "time": 100.0,
            "drivers": 1,
            "live_runs": sum(run.ended is None for run in runs),
            "ended_runs": sum(run.ended is not None for run in runs),
            "usage": sum((run.total_usage for run in roots), Usage()),
            "cost": sum((run.total_cost for run in roots), Cost(amount=Decimal(0))),
            "runs": runs,
            **fields,
        }
    )
