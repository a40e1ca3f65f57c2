// Package stsapi answers GetCallerIdentity of AWS STS, which many tools ask before they do anything
// else: in which account am I, and as whom?
//
// STS speaks the Query protocol: forms in, XML out. [Identity] is the answer, [Handler] answers
// requests, and [WriteError] writes an error in the same protocol. All other operations of STS are
// refused by name, because Berth has no credentials to give. The embedded tier and `berth proxy`
// use it. Start reading at [Handler].
package stsapi
