// Package environment is what every function's main starts with: it reads the variables that
// template.yaml sets, makes the clients of AWS, and runs the handler under Lambda with logs,
// metrics and spans.
//
// In come environment variables, in [LoadProcess]; out go the ports and settings that handlers
// take. Mistakes in the variables are collected, so that a log names all of them at once:
// [Environment.StartFunction] ends the process if there are any, and Lambda reports a failed start.
//
// Only what Lambda sets is read, no shared configuration files and no instance metadata. That keeps
// the binaries small and cold starts short. Lambda gives an environment one event at a time; the
// request id of log lines relies on it.
//
// Start reading at [LoadProcess], then [Environment.StartFunction].
package environment
