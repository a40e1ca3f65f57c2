// Package operation is what the operations of Berth's API take and return, between the protocols
// (shared/wire), which read it from requests, and shared/handler/api, which carries it out.
//
// A type with the name of an operation, such as [CreateService], has what the caller asked for:
// names reduced from ARNs, a pointer nil where the caller said nothing. Types that end in Detail
// are nouns of shared/cluster with what goes with them in an answer. Nothing here is stored.
package operation
