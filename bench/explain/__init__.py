"""How often `report --explain` names the planted driver, and how often one without cause, on simulated fleets."""
