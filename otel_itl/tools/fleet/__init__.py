"""What a fleet's other programs need of us: rules for Prometheus and dashboards for Grafana, from `collector/`."""
