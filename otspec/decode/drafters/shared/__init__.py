"""Draft layers that share the target's embedding and head: token by token (EAGLE-3), or all depths at once."""
