// Package transport is what Berth's protocols have in common on HTTP: how long a request may be,
// which hosts and pages may call, the headers of an answer, who called, and what becomes of a panic
// or a fault.
//
// Errors of the API are [cluster.Error] and reach the caller; every other error is logged, and the
// caller learns only that the service is unavailable.
package transport
