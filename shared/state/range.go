package state

import "time"

// Range is a part of one cluster's rows: From ≤ sort key < To, at most Limit of them (0: all).
type Range struct {
	Cluster  string
	From, To string
	Limit    int
}

// Prefix is the range of all rows whose sort key starts with prefix.
func Prefix(cluster, prefix string) Range {
	return Range{Cluster: cluster, From: prefix, To: prefix + "\xff"}
}

// DueBy is the range of rows due at t or earlier.
func DueBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixDue, To: DueSort(t) + "\xff"}
}
