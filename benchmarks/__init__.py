"""embedkafka beside Apache Kafka: the same client, the same workload, one run, ratios."""
