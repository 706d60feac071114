//! The wide-column model on partitions.
