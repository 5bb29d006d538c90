"""What happens in a session, as OpenTelemetry's spans and metrics; only with the extra `otel`."""
