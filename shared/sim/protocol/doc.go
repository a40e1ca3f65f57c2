// Package protocol is what the simulated services' protocols share: the Query protocol, and answers
// and errors over HTTP.
package protocol
