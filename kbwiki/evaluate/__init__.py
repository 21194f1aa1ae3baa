"""Measures: how well a part does on labelled rows. Reads files, changes no store."""
