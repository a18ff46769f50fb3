"""Serving people: the HTTP server, its clients, and aggregation of many reports."""
