// Package trace sends OpenTelemetry spans of a function to a collector: one per invocation and one
// per request to AWS.
//
// It speaks OTLP's JSON over HTTP itself (OpenTelemetry protocol 1.x), because the OpenTelemetry
// SDK with its exporter would make each binary 10 MB larger. Spans are sent at the end of each
// invocation, because Lambda freezes the process between events. No failure to send them fails an
// invocation.
//
// Package environment is the only caller. Start reading at [Tracer.StartInvocation]; otlp.go has
// the messages.
package trace
