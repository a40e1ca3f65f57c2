// Package spelling finds names in rules that no instance has, and the nearest name that one has.
//
// [NewNames] collects what a cluster's instances have: attributes with their values, node
// properties, metrics, taints, capacity providers and families. [Names.CheckRules] compares rules and a
// capacity provider strategy with them. The package is pure. Start with names.go.
package spelling
