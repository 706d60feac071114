//! Metric names, labels and handles. Nothing of ours is imported here.
