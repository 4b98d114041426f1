"""Renders neutral tables, figures and findings (`page.py`) as terminal text, HTML, SVG, matplotlib plots and JSON."""
