"""Compares embedkafka with Apache Kafka: same client, same workload, one run, ratios."""
