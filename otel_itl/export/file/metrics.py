"""Our metrics → an OTLP JSON document, by the encoder of OpenTelemetry's own exporters."""

# ruff: noqa: PLC0415 - protobuf is slow to import, and the first collection is seconds away

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.metrics.export import MetricsData

from otel_itl.core.conventions import SCOPE
from otel_itl.export.file.encoding import LEFT_OUT_OF_RESOURCES, Document


def encode_metrics(collections: Iterable[MetricsData]) -> Document:
    """Encode the metrics of our scope in some collections; those of other instrumentations are left out.

    Empty where there are none.
    """
    # One collection at a time: the encoder keeps one part for each resource, and two providers may have the same.
    resources = [resource for data in collections for resource in _encode(data)]
    return {"resourceMetrics": resources} if resources else {}


def _encode(data: MetricsData) -> list[Document]:
    """Encode one collection."""
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics as to_message

    ours = [
        replace(resource, scope_metrics=[scope for scope in resource.scope_metrics if scope.scope.name == SCOPE])
        for resource in data.resource_metrics
    ]
    ours = [resource for resource in ours if any(scope.metrics for scope in resource.scope_metrics)]
    message = to_message(MetricsData(resource_metrics=ours))
    resources: list[Document] = MessageToDict(message, use_integers_for_enums=True).get("resourceMetrics", [])
    for resource in resources:
        attributes = resource["resource"].get("attributes", ())
        resource["resource"]["attributes"] = [
            attribute for attribute in attributes if not attribute["key"].startswith(LEFT_OUT_OF_RESOURCES)
        ]
        for exemplar in _exemplars(resource):
            for name in exemplar.keys() & {"traceId", "spanId"}:
                exemplar[name] = b64decode(exemplar[name]).hex()  # OTLP writes ids in hex, protobuf's JSON does not
    return resources


def _exemplars(resource: Document) -> Iterator[dict[str, Any]]:
    """Yield the exemplars of every data point."""
    for scope in resource["scopeMetrics"]:
        for metric in scope["metrics"]:
            for points in metric.values():
                if isinstance(points, dict):
                    for point in points.get("dataPoints", ()):
                        yield from point.get("exemplars", ())
