// Package input reads what all of Berth's APIs take: names, ids and ARNs ([References]), bounds of
// members, client parameters as a digest, and tokens of pages.
//
// The operations in ecsapi, eksapi and berthapi call it with members of a request. It returns plain
// names, and for anything impossible an InvalidParameterException with the member, the value and
// what was expected. Values are cut in messages, so that an error is never as long as its request.
//
// Start with [References].
package input
