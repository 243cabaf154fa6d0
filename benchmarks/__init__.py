"""Benchmarks against peers: one file per question, side by side in one run, as ratios. See docs/performance.md."""
