"""Clicks become sessions: a Structured Streaming job that knows nothing of embedkafka."""
