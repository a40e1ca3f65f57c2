// Package transport is what Berth's protocols share on HTTP: how long a request may be, which hosts
// and pages may call, the headers of an answer, who called, and what happens to a panic or a fault.
//
// awsjson and eksapi call it, and so does the simulated AWS. Errors of the API are [cluster.Error]
// and reach the caller as they are. Every other error is a fault: it is logged with its operation
// and principal, and the caller learns only that the service is unavailable. Start with http.go and
// guard.go.
package transport
