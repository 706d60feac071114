//! Pushes new entries to subscriptions: follows the tail, wakes cursors.
