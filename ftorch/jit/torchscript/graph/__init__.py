"""Programs shown as graphs (``.graph``)."""
