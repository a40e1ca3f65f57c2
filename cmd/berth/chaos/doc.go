// Package chaos breaks the simulated AWS on purpose: it serves the calls below /fleet/, for which
// AWS has no operation, and makes them.
//
// [Handler] serves them, in front of `berth up` and `berth fleet`. [Client.Break] makes them for
// `berth chaos`: it chooses what to break if the user does not say, and reports what it has done.
// Start at [Kinds], which lists what can break.
//
// The handler breaks only simulated machines, and takes requests only from this machine, and none
// that a web page can make. Berth learns what has happened as it would on AWS: by events, or by
// their absence.
package chaos
