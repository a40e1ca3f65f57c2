// Package template checks template.yaml as a whole: every cycle of functions, queues and streams
// passes through the table (cycle_test.go), every role allows what its function calls
// (role_test.go), and everything that can fail or stall has an alarm (alarm_test.go).
package template
