// Package operation is what the operations of Berth's API take and return. It lies between the
// protocols (shared/wire), which read it from requests, and shared/handler/api, which carries it
// out; so neither needs the other's types.
//
// A type with the name of an operation, such as [CreateService], has what the caller asked for:
// names instead of ARNs, and nil for a pointer where the caller said nothing. Types that end in
// Detail are nouns of shared/cluster with what belongs to them in an answer. Nothing here is
// stored.
//
// Start with service.go.
package operation
